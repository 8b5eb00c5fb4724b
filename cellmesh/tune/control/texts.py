"""What the controller tells users."""

from __future__ import annotations


def begins_again(trial: int, why: str) -> str:
    """Of a trial that is paused without a checkpoint."""
    return (
        f"trial {trial} is paused, and will begin again: {why}. A trial that reports with checkpoint=... goes on where "
        "it was, and needs no process meanwhile"
    )


def goes_on_as_it_is(trial: int, donor: int) -> str:
    """Of a trial that was to go on from a checkpoint that there is not."""
    return (
        f"trial {trial} was to go on from trial {donor}, which has saved no checkpoint, so it goes on as it is: "
        "report(..., checkpoint=...) saves one"
    )


def goes_on_reporting(trial: int) -> str:
    """Of a trial that was told to end."""
    return (
        f"trial {trial} was told to end and goes on reporting, so its process is ended. report() raises StopTrial to "
        "end a trial: do not catch BaseException around it, or raise it again"
    )


def starved(n_paused: int) -> str:
    """Of an experiment in which nothing runs."""
    if n_paused:
        return f"nothing runs and nothing can: {n_paused} trials are paused, and the scheduler resumes none"
    return "nothing runs and nothing can: the searcher waits for a result, and no trial runs"
