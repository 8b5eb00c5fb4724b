"""Everything that cellmesh raises by itself, as one tree.

    CellmeshError
    ├── TaskError                  the user's function raised; also an instance of that exception's own class
    ├── TaskCancelledError         cancel() ended the task
    ├── TaskPlacementGroupRemoved  its placement group was removed
    ├── WorkerCrashedError         the process that ran the task died, and no retries are left
    │   └── OutOfMemoryError       ... because it used more memory than there is
    ├── NodeDiedError              the machine that ran the task was lost, and no retries are left
    ├── TaskUnschedulableError     the node on which alone the task may run is no member of the cluster
    ├── ActorError
    │   ├── ActorDiedError         it ended, was killed, crashed, or its constructor raised
    │   │   └── ActorPlacementGroupRemoved  ... or its placement group was removed
    │   ├── ActorUnavailableError  it is being restarted; the call may have been executed
    │   └── PendingCallsLimitExceeded  it has as many calls as max_pending_calls allows; this one was not made
    ├── GetTimeoutError            (also a TimeoutError) the values were not there in time
    ├── RuntimeEnvSetupError       the runtime_env of a task or actor could not be set up
    ├── ObjectLostError            the object's memory is gone, or its file
    ├── ObjectStoreFullError       (also a MemoryError) no room, even after waiting
    │   └── OutOfDiskError         ... because objects could not be moved to disk either
    ├── StoreLimitError            one of the store's tables is full
    ├── StoreCorruptedError        the store contradicts itself: our bug, or somebody wrote into the segment
    ├── UnknownArgumentError       (also a TypeError and a RuntimeError) init() has no such argument
    └── SessionError
        ├── NotInitializedError    the call needs a session that runs
        ├── AlreadyInitializedError  (also a RuntimeError) init() asks for something else than what runs
        ├── SessionClosedError     the ref or handle belongs to a session that has been shut down
        ├── SessionLostError       the local scheduler died, and with it every task of the session
        ├── ClusterError           (also a ConnectionError) the cluster cannot be joined
        │   ├── AuthenticationError  (also a PermissionError) ... because there is no key or token for it, or none that is good
        │   └── HeadUnreachableError  what only the cluster's head can do is not done, as it does not answer
        └── ForkedClientError      a forked child used its parent's session

Wrong use of an API is Python's own TypeError or ValueError, at the line that did it.
"""
from __future__ import annotations

import signal
import types
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from .text import in_one_line
from .tracebacks import rendered, readable_traceback

DIED_WITH_ITS_MACHINE = -2000  # in place of an exit status

__all__ = [
    "ActorDiedError", "ActorError", "ActorPlacementGroupRemoved", "ActorUnavailableError", "AlreadyInitializedError", "AuthenticationError",
    "CellmeshError", "ClusterError", "ForkedClientError",
    "GetTimeoutError", "HeadUnreachableError", "InfeasibleResourcesWarning", "LargeClosureWarning", "NodeDiedError", "NotInitializedError", "ObjectLostError",
    "ObjectStoreFullError", "OutOfDiskError", "OutOfMemoryError", "PendingCallsLimitExceeded", "RuntimeEnvSetupError",
    "SessionClosedError", "SessionError", "SessionLostError",
    "StoreCorruptedError",
    "StoreLimitError", "TaskCancelledError", "TaskError", "TaskPlacementGroupRemoved", "TaskUnschedulableError", "UnknownArgumentError",
    "WorkerCrashedError",
]


class CellmeshError(Exception):
    """The root of the tree.

    Attributes
    ----------
    task : int
        The number of the task that raised, as in `state.list_tasks()`; 0 if it is unknown, or if there is none.
    """

    task: int = 0

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: what to show in place of the usual traceback."""
        from . import hooks
        hooks.before_error(self.task)
        return rendered(self)


class TaskError(CellmeshError):
    """A task's function raised.

    What `get` raises is an instance of a subclass of both this class and the class of the original exception, so that
    `except ValueError` catches it. That is not possible for SystemExit and other exceptions outside `Exception`, nor
    for exceptions whose class cannot be found here; then it is a plain TaskError.

    Attributes
    ----------
    task_name : str
        The display name of the function.
    cause : BaseException or None
        The original exception; None if it could not be pickled or not be unpickled here.
    cause_type : str
        The name of its class.
    message : str
        Its text.
    remote_traceback : str
        The traceback in the worker.
    pid : int
        The worker's process id.
    node : str
        Where there are several machines, the name of the worker's.
    note : str
        What else is known, for example why the exception could not be sent as an object.
    frames : tuple of (str, str)
        Where they are kept (`%%remote --keep`, `%config CellmeshMagics.keep_frames = True`): for each of the task's frames, the innermost
        last, where it was and its local variables as text.
    kept : tuple of (str, int) or None
        Where the frames themselves are kept, for `post_mortem.converse`.
    """

    task_name: str = ""
    cause: BaseException | None = None
    cause_type: str = ""
    message: str = ""
    remote_traceback: str = ""
    pid: int = 0
    node: str = ""
    note: str = ""
    frames: tuple[tuple[str, str], ...] = ()
    kept: tuple[str, int] | None = None

    def __str__(self) -> str:
        note = f"\n\n({self.note})" if self.note else ""
        return (f"{self.message or self.cause_type}\n\n{self._where()} Its traceback there:\n\n"
                f"{readable_traceback(self.remote_traceback).rstrip()}{note}")

    # Ray's names, for programs that handle its RayTaskError.
    @property
    def function_name(self) -> str:
        """The display name of the function."""
        return self.task_name

    @property
    def traceback_str(self) -> str:
        """The traceback in the worker."""
        return self.remote_traceback

    def as_instanceof_cause(self) -> TaskError:
        """An error that is also of the class of the cause: this one."""
        return self

    def _where(self) -> str:
        from . import hooks
        inputs = hooks.inputs_in_words(self.task, self.task_name)
        return f"The task {self.task_name!r} raised it in the worker with pid {self.pid}{f' on {self.node}' if self.node else ''}.{' ' if inputs else ''}{inputs}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _error_of, (self._record, self.task)


class TaskCancelledError(CellmeshError):
    """The task was cancelled before it had a result."""


class TaskPlacementGroupRemoved(CellmeshError):  # noqa: N818  (Ray's name)
    """The placement group that the task was to run in, or ran in, was removed."""


class WorkerCrashedError(CellmeshError):
    """The process that ran the task died.

    Attributes
    ----------
    exit_code : int
        Its exit status, or minus the number of the signal that killed it.
    """

    exit_code: int = 0


class NodeDiedError(CellmeshError):
    """The machine that ran the task was lost: it went down, or could not be reached any more."""


class TaskUnschedulableError(CellmeshError):
    """The node on which alone a task may run is no member of the cluster."""


class OutOfMemoryError(WorkerCrashedError):
    """The worker was killed because memory ran out."""


class ActorError(CellmeshError):
    """An actor could not serve the call."""


class ActorDiedError(ActorError):
    """The actor is dead and will not come back.

    Attributes
    ----------
    exit_code : int
        How its process ended: exit status, or minus the number of a signal; 0 also when the constructor raised.
    cause : BaseException or None
        What its constructor raised, if it did and if that could be sent.
    remote_traceback : str
        The constructor's traceback in the worker, if it raised.
    """

    exit_code: int = 0
    cause: BaseException | None = None
    remote_traceback: str = ""


class ActorPlacementGroupRemoved(ActorDiedError):  # noqa: N818  (Ray's name)
    """The placement group that the actor ran in was removed."""


class ActorUnavailableError(ActorError):
    """The actor is being restarted. Whether the call was executed is not known."""


class PendingCallsLimitExceeded(ActorError):  # noqa: N818  (Ray's name)
    """The actor has as many calls queued or running as its option `max_pending_calls` allows. The call was not made."""


class GetTimeoutError(CellmeshError, TimeoutError):
    """The values were not there in time. The tasks go on."""


class RuntimeEnvSetupError(CellmeshError):
    """A process could not be made what the `runtime_env` of its task or actor asks for."""


class ObjectLostError(CellmeshError):
    """The object's memory is gone, or the file it lay in cannot be read, and it cannot be computed again."""


class ObjectStoreFullError(CellmeshError, MemoryError):
    """The object does not fit into the object store."""


class OutOfDiskError(ObjectStoreFullError):
    """The object does not fit into the object store, and moving others to disk has failed."""


class StoreLimitError(CellmeshError):
    """One of the store's tables (objects, tasks, actors, clients) is full."""


class StoreCorruptedError(CellmeshError):
    """Something has overwritten the store's memory, for example an array written out of bounds. The session has ended, unless the
    bytes of one value alone are damaged."""


class UnknownArgumentError(CellmeshError, TypeError, RuntimeError):
    """`init` has no such argument. Python's own class for that is TypeError; Ray's programs expect RuntimeError."""


class SessionError(CellmeshError):
    """The session is not there."""


class NotInitializedError(SessionError):
    """No session runs in this process."""


class AlreadyInitializedError(SessionError, RuntimeError):
    """A session with other properties runs in this process."""


class SessionClosedError(SessionError):
    """The session has been shut down."""


class SessionLostError(SessionError):
    """The local scheduler died; every task, actor and object of the session is gone."""


class ClusterError(SessionError, ConnectionError):
    """The session cannot take part in the cluster that it is to; the text says why."""


class AuthenticationError(ClusterError, PermissionError):
    """This machine has no key or join token for the cluster, or none that is good there."""


class HeadUnreachableError(ClusterError):
    """The head of the cluster does not answer; what only it can do is not done, or it is not known whether it is. Everything else goes on."""


class ForkedClientError(SessionError):
    """A child made by os.fork() used the session of its parent."""


class InfeasibleResourcesWarning(UserWarning):
    """A task asks for more than there will ever be; it waits."""


class LargeClosureWarning(UserWarning):
    """A function or class captures much data, which travels with it."""


# ---------------------------------------------------------------- from what the store holds
# A failed object holds a tuple. From workers: (kind, function name, exception type, message, traceback, pickled
# exception or None, pid, note), perhaps followed by what was kept of the frames, with kind "task_error", or with kind
# "actor_init" and the constructor's number at the end; from the core: ("system", code, detail, task number).

def make_error(record: tuple[Any, ...], task_name: str = "", task: int = 0,
               spelled: Callable[[str], str] = lambda option: f"option {option}") -> BaseException:
    """The exception that a failed object's tuple describes.

    Parameters
    ----------
    record : tuple
        As the worker or the core wrote it.
    task_name : str
        For records of the core, which know only the task's number.
    task : int
        The number of the task whose result failed.
    spelled : callable
        How whoever submitted the task writes one of its options.
    """
    kind = record[0]
    if kind == "system":
        return _system_error(record, task_name, spelled)
    if kind == "actor_init":
        return _constructor_error(record)
    return _error_of(record, task)


def _error_of(record: tuple[Any, ...], task: int) -> TaskError:
    _, name, cause_type, message, remote_traceback, pickled, place, note, *kept = record
    pid, node = place if isinstance(place, tuple) else (place, "")
    cause, problem = _load_cause(pickled)
    # A task that let the error of a task it waited for pass: the class counts that was raised first.
    original = cause.cause if isinstance(cause, TaskError) and cause.cause is not None else cause
    error = _instance_of_both(original) if original is not None else TaskError()
    error.task_name, error.cause, error.cause_type, error.message = name, cause, cause_type, message
    error.remote_traceback, error.pid, error.node, error.task = remote_traceback, pid, node, task
    error.note = "; ".join(filter(None, (note, problem)))
    error.frames, error.kept = kept or ((), None)
    error._record = record
    return error


def _load_cause(pickled: bytes | None) -> tuple[BaseException | None, str]:
    if pickled is None:
        return None, ""
    from .objstore.serialization import unpickle
    try:
        cause = unpickle(pickled, ())
    except Exception as problem:  # the user's classes may do anything here; the error itself must still arrive
        return None, f"the exception could not be unpickled here, this is its text: {type(problem).__name__}: {problem}"
    return cause, ""


@lru_cache(maxsize=512)
def _class_of_both(cause_type: type[Exception]) -> type[TaskError]:
    """A subclass of TaskError and of the class; TaskError itself where Python does not allow one."""
    def namespace(body: dict[str, Any]) -> None:
        body.update(__module__=TaskError.__module__, __doc__=cause_type.__doc__)
    name = f"TaskError({in_one_line(cause_type.__name__)})"
    try:
        return types.new_class(name, (TaskError, cause_type), exec_body=namespace)
    except Exception:  # final classes, conflicting layouts, demanding metaclasses: Python and the user decide, not we
        return TaskError


def _instance_of_both(cause: BaseException) -> TaskError:
    # A SystemExit that get() raises would end the driver, so what is not an Exception stays text.
    both = _class_of_both(type(cause)) if isinstance(cause, Exception) else TaskError
    if both is TaskError:
        return TaskError()
    try:
        return _copy_into(both, cause)
    except Exception:  # for instance a group that may not nest what it holds
        return TaskError()


@lru_cache(maxsize=512)
def _fields_of(cls: type[BaseException]) -> tuple[str, ...]:
    """What its instances keep outside their `__dict__`: in C structs (OSError.filename) and `__slots__`."""
    bases = cls.__mro__[:cls.__mro__.index(BaseException)]
    return tuple(name for base in bases for name, member in vars(base).items() if isinstance(member, types.MemberDescriptorType))


def _copy_into(both: type[TaskError], cause: BaseException) -> TaskError:
    """An instance that carries everything the cause carries, made without calling the user's `__new__` and
    `__init__`."""
    heap_type = 1 << 9
    builtin: type = both
    while builtin.__flags__ & heap_type:  # the base that decides what lies in memory, and so whose __new__ is allowed
        builtin = builtin.__base__
    error = builtin.__new__(both, *cause.args)
    builtin.__init__(error, *cause.args)
    error.args = cause.args
    for name in _fields_of(type(cause)):
        try:
            setattr(error, name, getattr(cause, name))
        except (AttributeError, TypeError):  # unset or read-only: __new__ has made it
            continue
    error.__dict__.update(vars(cause))
    return error


def _constructor_error(record: tuple[Any, ...]) -> ActorDiedError:
    from . import hooks
    _, name, cause_type, message, remote_traceback, pickled, pid, note, *_, task = record
    cause, problem = _load_cause(pickled)
    notes = "; ".join(filter(None, (note, problem)))
    inputs = hooks.inputs_in_words(task, name)
    text = (f"the constructor of actor {name!r} raised {cause_type}: {message}\n\n{inputs}{' ' if inputs else ''}Its traceback in "
            f"the worker with pid {pid}:\n\n{readable_traceback(remote_traceback).rstrip()}")
    error = ActorDiedError(f"{text}\n\n({notes})" if notes else text)
    error.cause, error.remote_traceback, error.task = cause, remote_traceback, task
    return error


def _system_error(record: tuple[Any, ...], name: str, spelled: Callable[[str], str]) -> CellmeshError:
    _, code, detail, seq = record
    task = f"the task {name!r}" if name else f"task number {seq}"
    if code == "worker_crashed":
        return _with_exit_code(WorkerCrashedError(
            f"the worker that ran {task} {how_it_ended(detail)}, and the task has no retries left "
            f"({spelled('max_retries')})"), detail)
    if code == "out_of_memory":
        return _with_exit_code(OutOfMemoryError(
            f"the worker that ran {task} was killed because memory ran out: let it hold less at a time, or run fewer "
            f"at once ({spelled('memory')}, {spelled('num_cpus')})"), detail)
    if code == "cancelled":
        return TaskCancelledError(f"{task} was cancelled")
    if code == "actor_died":
        if detail == DIED_WITH_ITS_MACHINE:
            return ActorDiedError(f"the actor that {task} calls is dead: the machine where it lived was lost, and it has no restarts left "
                                  "(option max_restarts)")
        ended = f"its process {how_it_ended(detail)}" if detail else "it was ended by kill() or with its last handle"
        return _with_exit_code(ActorDiedError(f"the actor that {task} calls is dead: {ended}"), detail)
    if code in ("unplaced", "actor_unplaced"):
        from .placement import label_of
        if code == "unplaced":
            return TaskPlacementGroupRemoved(f"{label_of(detail)} of {task} has been removed")
        return ActorPlacementGroupRemoved(f"the actor that {task} calls is dead: its {label_of(detail)} has been removed")
    if code == "actor_unavailable":
        return ActorUnavailableError(f"the actor's process ended while it ran {task}, and the actor restarts: the call "
                                     "may have been executed or not (option max_task_retries repeats it)")
    if code == "node_died":
        return NodeDiedError(f"the machine that ran {task} was lost, and the task has no retries left ({spelled('max_retries')})")
    if code == "cannot_leave":
        return CellmeshError(f"{task} was to go to another machine, or what it made, and cannot: the generator of another task, and an actor with very many "
                             "methods, stay on the machine where they are made")
    if code == "unrouted":
        return TaskUnschedulableError(f"{task} can run nowhere: {_where_it_was_to_run(detail)}")
    if code == "object_lost":
        return ObjectLostError(f"the object that {task} made is gone, together with the process that held it")
    if code == "store_full":
        return ObjectStoreFullError(f"the result of {task} did not fit into the object store, nor did a description of "
                                    "the error: drop references that are no longer needed, or start with a larger "
                                    "object_store_memory")
    return CellmeshError(f"{task} failed: {code} ({detail})")


def _where_it_was_to_run(resource_class: int) -> str:
    from .session import current_or_none
    of = current_or_none()
    text = of.client.strategy(resource_class) if of is not None and resource_class >= 0 else ""
    if not text:
        return "the node that it was to run on is no member of the cluster"
    from .scheduler.cluster.strategies import from_text
    wish = from_text(text)
    if wish.kind == "node":
        return (f"no node of the cluster has the id, name or number {wish.node!r} (cellmesh.nodes() lists them), and soft=False allows no "
                "other; or it cannot be sent to another node (docs/cluster.md says what cannot)")
    return (f"it must run where {', '.join(f'{key}={value}' for key, value in wish.labels.items())} holds, and this session is in no cluster any "
            "more, or it cannot be sent to another node (docs/cluster.md says what cannot)")


def _with_exit_code(error: Any, exit_code: int) -> Any:
    error.exit_code = exit_code
    return error


def how_it_ended(exit_code: int) -> str:
    """'was killed by SIGKILL' for -9, 'ended with exit status 3' for 3."""
    if exit_code >= 0:
        return f"ended with exit status {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"
