"""What the death of a member means for a group, as a table. Pure."""

from __future__ import annotations

from typing import Any, Literal

OnDeath = Literal["fail", "restart", "shrink"]
Event = Literal["call", "barrier"]
Answer = Literal["raise", "leave out"]

# For a member that is dead and will not come back. One that the scheduler starts again is not dead: calls wait for it.
TABLE: dict[tuple[OnDeath, Event], Answer] = {
    ("fail", "call"): "raise",
    ("fail", "barrier"): "raise",
    ("restart", "call"): "raise",  # its restarts are used up, its constructor failed, or it was killed
    ("restart", "barrier"): "raise",
    ("shrink", "call"): "leave out",
    ("shrink", "barrier"): "leave out",
}
POLICIES = tuple(dict.fromkeys(policy for policy, _ in TABLE))


def check(policy: Any, called: str) -> None:
    """Raises ValueError if there is no such policy."""
    if policy not in POLICIES:
        raise ValueError(f"{called}: on_death={policy!r} must be one of {', '.join(map(repr, POLICIES))}")


def remedy(rank: int) -> str:
    """What helps where a member is dead."""
    return (
        f"restart({rank}) of the group makes it anew, and a part without it can be called; "
        'on_death="restart" or "shrink" has the group do without you'
    )


def answer(policy: OnDeath, event: Event, n_alive: int) -> Answer:
    """What to do when a member is dead that a call is for, or that others wait for; when all are, it is told."""
    return TABLE[policy, event] if n_alive else "raise"


def max_restarts(policy: OnDeath, asked: int | None) -> int:
    """How often a member is started again; `asked`: the option of that name, if it was given."""
    if asked is not None:
        return asked
    return -1 if policy == "restart" else 0
