"""Ray's exceptions: other names of cellmesh's, and some that nothing raises here, at their places in the tree.

What is raised in a process that has imported this module is named as Ray names it: `RayTaskError(ValueError)`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from ... import exceptions as _ours
from ... import front_end
from ...exceptions import (
    ActorAlreadyExistsError,
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfMemoryError,
    TaskCancelledError,
    WorkerCrashedError,
)
from ...exceptions import ActorError as RayActorError
from ...exceptions import CellmeshError as RayError
from ...exceptions import SessionError as RaySystemError
from ...exceptions import SessionLostError as LocalRayletDiedError
from ...exceptions import TaskError as RayTaskError
from .. import missing as _missing

UserCodeException = RayTaskError
# Raised here once cellmesh has them under these names; until then they only can be caught.
_names = {
    "PendingCallsLimitExceeded": RayError,
    "TaskUnschedulableError": RayError,
    "ActorUnschedulableError": RayError,
    "RuntimeEnvSetupError": RayError,
    "OutOfDiskError": RayError,
    "NodeDiedError": RayError,
    "AuthenticationError": RayError,
    "CrossLanguageError": RayError,
    "RpcError": RayError,
    "ActorPlacementGroupRemoved": RayError,
    "TaskPlacementGroupRemoved": RayError,
    "ActorHandleNotFoundError": ValueError,
    "AsyncioActorExit": RayError,
    "ObjectRefStreamEndOfStreamError": RayError,
    "PlasmaObjectNotAvailable": RayError,
    "UnserializableException": RayError,
    "OufOfBandObjectRefSerializationException": RayError,
    **dict.fromkeys(
        (
            "RayCgraphCapacityExceeded",
            "RayChannelError",
            "RayChannelTimeoutError",
            "RayDirectTransportError",
            "StreamingGeneratorReplayInconsistentError",
        ),
        RaySystemError,
    ),
    "ObjectFetchTimedOutError": ObjectLostError,
    "ObjectFreedError": ObjectLostError,
    "OwnerDiedError": ObjectLostError,
    "ObjectReconstructionFailedError": ObjectLostError,
    "ReferenceCountingAssertionError": ObjectLostError,
}
for _name, _base in _names.items():
    globals()[_name] = getattr(_ours, _name, None) or type(_name, (_base,), {"__module__": __name__})

__all__ = [  # noqa: PLE0604 (some names are those of the table)
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorUnavailableError",
    "GetTimeoutError",
    "LocalRayletDiedError",
    "ObjectLostError",
    "ObjectStoreFullError",
    "OutOfMemoryError",
    "RayActorError",
    "RayError",
    "RaySystemError",
    "RayTaskError",
    "TaskCancelledError",
    "UserCodeException",
    "WorkerCrashedError",
    *_names,
]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.exceptions")


class _CancelledWhileItRan(RayTaskError, TaskCancelledError):
    """A task that ran was cancelled, which is an error of the task for Ray; one that had not begun is a plain
    TaskCancelledError.
    """

    __str__ = Exception.__str__

    def __reduce__(self) -> tuple[Any, ...]:
        return TaskCancelledError, self.args


_CancelledWhileItRan.__name__ = _CancelledWhileItRan.__qualname__ = "RayTaskError(TaskCancelledError)"


@lru_cache(maxsize=512)
def _named_as_ray(kind: type[RayTaskError]) -> type[RayTaskError]:
    return type(
        kind.__name__.replace("TaskError", "RayTaskError", 1),
        (kind,),
        {"__module__": __name__, "__doc__": kind.__doc__},
    )


def _as_ray(record: tuple[Any, ...], error: BaseException) -> BaseException:
    """An error as Ray has it."""
    if record[:3] == ("system", "cancelled", 1):
        cancelled = _CancelledWhileItRan(*error.args)
        cancelled.message, cancelled.cause = str(error), error
        if isinstance(error, TaskCancelledError):
            cancelled.task = error.task
        return cancelled
    if isinstance(error, ActorDiedError) and error.args:
        error.args = (str(error.args[0]).replace("it was ended by kill()", "it was killed by `ray.kill`"),)
    if isinstance(error, RayTaskError):
        if type(error).__name__.startswith("TaskError"):
            error.__class__ = _named_as_ray(type(error))
        if error.cause is None and error.note:
            error.cause = RayError(
                f"Exception {error.cause_type} isn't serializable: {error.note}\n"
                f"Original exception details:\n{error.remote_traceback}"
            )
    return error


class _RayDialect(front_end.Dialect):
    """Errors are Ray's, calls fail while their actor restarts, and arrays are read-only."""

    refuses_while_restarting = True
    readonly = True

    def adapted(self, record: tuple[Any, ...], error: BaseException) -> BaseException:
        """See `Dialect`."""
        return _as_ray(record, error)


front_end.dialect = _RayDialect()
