"""Where what a user keeps beyond a session lies."""

from __future__ import annotations

import os


def state_folder(*parts: str) -> str:
    """A folder below cellmesh's own in $XDG_STATE_HOME, or in ~/.local/state; it need not be there."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "cellmesh", *parts)
