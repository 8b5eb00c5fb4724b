"""How tasks and processes end, as the core's numbers and in words. A leaf."""

from __future__ import annotations

import signal

# In place of an exit status.
DIED_WITH_ITS_MACHINE = -2000
ENDED_SOMEHOW = -2001  # on an engine that does not say how
ENDED_ON_PURPOSE = {
    -3001: "it was ended by kill()",
    -3002: "it has ended itself, by exit_actor() or sys.exit(0)",
    -3003: "its last handle went",
}
NOT_BEGUN = -3004
EXITED = 1000  # and the status: the task has called sys.exit


def how_it_ended(exit_code: int) -> str:
    """'was killed by SIGKILL' for -9, 'ended with exit status 3' for 3, 'ended' where that is not known."""
    if exit_code == ENDED_SOMEHOW:
        return "ended"
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"
