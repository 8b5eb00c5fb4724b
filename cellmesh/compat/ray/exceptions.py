"""Ray's exceptions: other names of cellmesh's, and some that nothing raises here, at their places in the tree."""
from __future__ import annotations

from ...exceptions import (ActorDiedError, ActorUnavailableError, GetTimeoutError, ObjectLostError,
                           ObjectStoreFullError, OutOfMemoryError, TaskCancelledError, WorkerCrashedError)
from ...exceptions import ActorError as RayActorError
from ...exceptions import CellmeshError as RayError
from ...exceptions import SessionError as RaySystemError
from ...exceptions import SessionLostError as LocalRayletDiedError
from ...exceptions import TaskError as RayTaskError
from ... import exceptions as _ours
from .. import missing as _missing

ActorAlreadyExistsError = ValueError
UserCodeException = RayTaskError
# Raised here once cellmesh has them under these names; until then they only can be caught.
_names = {
    "PendingCallsLimitExceeded": RayError, "TaskUnschedulableError": RayError, "ActorUnschedulableError": RayError,
    "RuntimeEnvSetupError": RayError, "OutOfDiskError": RayError, "NodeDiedError": RayError,
    "AuthenticationError": RayError, "CrossLanguageError": RayError, "RpcError": RayError,
    "ActorPlacementGroupRemoved": RayError, "TaskPlacementGroupRemoved": RayError,
    "ActorHandleNotFoundError": ValueError,
    "AsyncioActorExit": RayError, "ObjectRefStreamEndOfStreamError": RayError, "PlasmaObjectNotAvailable": RayError,
    "UnserializableException": RayError, "OufOfBandObjectRefSerializationException": RayError,
    "ObjectFetchTimedOutError": ObjectLostError, "ObjectFreedError": ObjectLostError, "OwnerDiedError": ObjectLostError,
    "ObjectReconstructionFailedError": ObjectLostError, "ReferenceCountingAssertionError": ObjectLostError,
}
for _name, _base in _names.items():
    globals()[_name] = getattr(_ours, _name, None) or type(_name, (_base,), {"__module__": __name__})

__all__ = [  # noqa: PLE0604
    "ActorAlreadyExistsError", "ActorDiedError", "ActorUnavailableError", "GetTimeoutError", "LocalRayletDiedError",
    "ObjectLostError", "ObjectStoreFullError", "OutOfMemoryError", "RayActorError", "RayError", "RaySystemError",
    "RayTaskError", "TaskCancelledError", "UserCodeException", "WorkerCrashedError", *_names,
]
__getattr__ = _missing.no_such_name("ray.exceptions")
