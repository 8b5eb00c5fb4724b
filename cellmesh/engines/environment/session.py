"""The session of a pocket's process: what is begun there runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...environment import runtime_env
from ...exceptions import EngineUnsupportedError
from ...session.session import Session
from . import folder


class PocketSession(Session):
    """See above.

    Attributes
    ----------
    environment_of_task : int or None
        The number of the environment that this process has; None: no task has begun yet.
    """

    is_pocket = True
    environment_of_task: int | None = None

    def environment_number(self, options: Mapping[str, Any]) -> int:
        """That of this process: there is no other one for what a task submits.

        Raises
        ------
        EngineUnsupportedError
            Another one is asked for.
        """
        if runtime_env.effective(options, self.environment) != runtime_env.effective({}, self.environment):
            raise EngineUnsupportedError(
                f"runtime_env={dict(options['runtime_env'])!r} is asked for by a task that runs on an engine, where "
                "what it submits runs in its own process: give that runtime_env to the task itself, or submit from "
                "the notebook or program what needs another one"
            )
        assert self.environment_of_task is not None  # a task asks
        return self.environment_of_task

    def package_dir(self) -> str:
        """Below which folders of the driver's are unpacked."""
        return folder.of(self.node.session_id)
