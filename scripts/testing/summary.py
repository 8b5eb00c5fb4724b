"""What a run of tests says at its end."""

from __future__ import annotations

from .running import Failure, Outcome

MOST_LINES = 60  # of what failed, and why
SAID_OF_FLAKY = 25  # lines of a first failure's log


def table(outcomes: list[Outcome], seconds: float) -> str:
    """A line for each kind, under how long all took."""
    lines = [f"\n{'=' * 24} summary, {seconds / 60:.1f} min {'=' * 24}"]
    for o in outcomes:
        tally = (
            f"{o.passed} passed"
            + (f", {o.failed} failed" if o.failed else "")
            + (f", {len(o.flaky)} flaky" if o.flaky else "")
            + (f", {o.skipped} skipped" if o.skipped else "")
        )
        lines.append(
            f"{o.status:<8} {o.kind.name:<28} {o.seconds:6.0f} s {budget(o):<9}"
            + (o.note if o.status == "NOT RUN" else tally)
            + (f" ({o.note})" if o.note and o.status != "NOT RUN" else "")
        )
    return "\n".join(lines)


def budget(o: Outcome) -> str:
    """What the kind may take, where that is said."""
    return f"of {o.kind.budget_s:4}" if o.kind.budget_s else ""


def flaky_tests(outcomes: list[Outcome]) -> str:
    """The tests that failed and then passed alone, each with the log of its first failure; nothing where there are
    none.
    """
    found = [(o.kind.name, failure) for o in outcomes for failure in o.flaky]
    if not found:
        return ""
    lines = [f"\n{'=' * 24} flaky: failed once, passed alone {'=' * 24}"]
    lines += [f"FLAKY    {kind}: {failure.name or 'as a whole'}" for kind, failure in found]
    for kind, failure in found:
        lines += [f"\n---- {kind}: {failure.name or 'as a whole'}", *failure.why.splitlines()[-SAID_OF_FLAKY:]]
    return "\n".join(lines)


def what_failed(outcomes: list[Outcome], in_ci: bool) -> str:
    """What failed and why, in MOST_LINES at most; nothing where nothing did."""
    found = [
        (o.kind.name, failure)
        for o in outcomes
        if o.status == "FAILED"
        for failure in o.failures or [Failure("", o.note)]
    ]
    absent = [o for o in outcomes if o.status == "NOT RUN"]
    if not found and not absent:
        return ""
    lines = [f"\n{'=' * 24} what failed {'=' * 24}"]
    for o in absent:
        ci = "  (CI=true: this is a failure)" if in_ci else ""
        lines.append(f"!!! THE {o.kind.name.upper()} TESTS WERE NOT RUN: {o.note}{ci}")
    room = MOST_LINES - len(lines)
    shown = found[: room // 2]
    n_each = max(1, (room - 1) // len(shown) - 1) if shown else 0
    for kind, failure in shown:
        lines.append(f"FAILED   {kind}: {failure.name or 'as a whole'}")
        lines += [f"    {line[:200]}" for line in reason(failure.why, n_each)]
    if len(shown) < len(found):
        lines.append(f"... and {len(found) - len(shown)} more, named above")
    return "\n".join(lines)


def reason(why: str, n_lines: int) -> list[str]:
    """The lines of a failure's text that say most: pytest's `E` lines, else the last."""
    lines = [line for line in why.splitlines() if line.strip()]
    told = [line for line in lines if line.startswith("E ")]
    return told[:n_lines] if told else lines[-n_lines:]


def closing(outcomes: list[Outcome], in_ci: bool) -> str:
    """The last lines: how many tests were flaky, and the tally."""
    failed = sum(o.failed for o in outcomes) + (sum(o.status == "NOT RUN" for o in outcomes) if in_ci else 0)
    n_flaky = sum(len(o.flaky) for o in outcomes)
    tally = f"{sum(o.passed for o in outcomes)} passed, {failed} failed, {sum(o.skipped for o in outcomes)} skipped"
    return f"\n{n_flaky} flaky\n{tally}"


def is_green(outcomes: list[Outcome], in_ci: bool) -> bool:
    """Whether nothing failed; in CI what was not run has."""
    return all(o.status == "ok" or (o.status == "NOT RUN" and not in_ci) for o in outcomes)
