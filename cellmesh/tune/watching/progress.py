"""The line that a program shows on stderr while it waits for an experiment: how far it is, and the best value."""

from __future__ import annotations

from collections.abc import Callable

from ...output.progress import Follower, Looked
from ...output.progress_text import Counts
from ...session.current import current_or_none
from ..experiment import Experiment
from ..results import best_of
from ..view import ExperimentView


def show_progress(experiment: Experiment) -> Callable[[], None]:
    """Show the line until the experiment is over; the result shows how far it is now."""

    def look() -> Looked:
        view = experiment.refresh()
        is_over = view.is_over or not experiment.is_run
        return Looked({in_words(experiment.name, view): counts_of(view)}, is_over)

    follower = Follower(look, "", current_or_none())
    follower.show()
    return follower.refresh


def in_words(name: str, view: ExperimentView) -> str:
    """The experiment's name, and the best value that it has found."""
    best = best_of(view)
    return name if best is None else f"{name} · best {view.metric} {best.last[view.metric or '']:.5g}"


def counts_of(view: ExperimentView) -> Counts:
    """How many trials there are and will be, and in which states they are."""
    states = [trial.state for trial in view.trials]
    return Counts(
        total=max(len(states), view.n_expected or 0),
        finished=states.count("TERMINATED"),
        failed=states.count("ERROR"),
        running=states.count("RUNNING"),
    )
