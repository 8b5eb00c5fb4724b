"""The tree of ray.exceptions: who is whose child."""
import ray.exceptions as e

pairs = [
    ("RayTaskError", "RayError"), ("RayActorError", "RayError"), ("ActorDiedError", "RayActorError"), ("ActorUnavailableError", "RayActorError"),
    ("TaskCancelledError", "RayError"), ("WorkerCrashedError", "RayError"), ("GetTimeoutError", "RayError"), ("ObjectLostError", "RayError"),
    ("OwnerDiedError", "ObjectLostError"), ("ObjectFreedError", "ObjectLostError"), ("ObjectReconstructionFailedError", "ObjectLostError"),
    ("ReferenceCountingAssertionError", "ObjectLostError"), ("ObjectFetchTimedOutError", "ObjectLostError"), ("ObjectStoreFullError", "RayError"),
    ("OutOfDiskError", "RayError"), ("OutOfMemoryError", "RayError"), ("NodeDiedError", "RayError"), ("TaskUnschedulableError", "RayError"),
    ("ActorUnschedulableError", "RayError"), ("RuntimeEnvSetupError", "RayError"), ("TaskPlacementGroupRemoved", "RayError"),
    ("ActorPlacementGroupRemoved", "RayError"), ("PendingCallsLimitExceeded", "RayError"), ("CrossLanguageError", "RayError"),
    ("RaySystemError", "RayError"), ("LocalRayletDiedError", "RayError"), ("AsyncioActorExit", "RayError"), ("PlasmaObjectNotAvailable", "RayError"),
]
for child, parent in pairs:
    print(child, issubclass(getattr(e, child), getattr(e, parent)), issubclass(getattr(e, parent), getattr(e, child)))
print(issubclass(e.GetTimeoutError, TimeoutError), issubclass(e.RayError, Exception), issubclass(e.TaskCancelledError, e.RayTaskError))
