"""Exceptions of Ray that programs make by themselves, in tests and in code that raises them on."""
import pickle

import ray
from ray import exceptions


def attempt(what, function):
    try:
        error = function()
        print(what, isinstance(error, getattr(exceptions, what)), isinstance(error, exceptions.RayError))
    except Exception as error:
        print(what, "cannot be made:", type(error).__name__)


attempt("GetTimeoutError", lambda: exceptions.GetTimeoutError("late"))
attempt("RayActorError", lambda: exceptions.RayActorError())
attempt("ActorDiedError", lambda: exceptions.ActorDiedError())
attempt("ActorUnavailableError", lambda: exceptions.ActorUnavailableError("restarting", b"\0" * 16))
attempt("WorkerCrashedError", lambda: exceptions.WorkerCrashedError())
attempt("TaskCancelledError", lambda: exceptions.TaskCancelledError())
attempt("OutOfMemoryError", lambda: exceptions.OutOfMemoryError("too much"))
attempt("NodeDiedError", lambda: exceptions.NodeDiedError("gone"))
attempt("ObjectStoreFullError", lambda: exceptions.ObjectStoreFullError("full"))
attempt("RaySystemError", lambda: exceptions.RaySystemError("broken"))
attempt("RuntimeEnvSetupError", lambda: exceptions.RuntimeEnvSetupError("no such package"))
attempt("TaskUnschedulableError", lambda: exceptions.TaskUnschedulableError("no node"))
attempt("ActorUnschedulableError", lambda: exceptions.ActorUnschedulableError("no node"))
attempt("PendingCallsLimitExceeded", lambda: exceptions.PendingCallsLimitExceeded("ten"))
attempt("TaskPlacementGroupRemoved", lambda: exceptions.TaskPlacementGroupRemoved())
attempt("ActorPlacementGroupRemoved", lambda: exceptions.ActorPlacementGroupRemoved())
attempt("ObjectLostError", lambda: exceptions.ObjectLostError("ab" * 28, None, ""))
attempt("ObjectFetchTimedOutError", lambda: exceptions.ObjectFetchTimedOutError("ab" * 28, None, ""))
attempt("OwnerDiedError", lambda: exceptions.OwnerDiedError("ab" * 28, None, ""))
attempt("ReferenceCountingAssertionError", lambda: exceptions.ReferenceCountingAssertionError("ab" * 28, None, ""))
attempt("RayTaskError", lambda: exceptions.RayTaskError("f", "Traceback ...", ValueError("inner")))
again = pickle.loads(pickle.dumps(exceptions.GetTimeoutError("late")))
print(type(again).__name__, str(again))
