"""Everything that cellmesh raises by itself, as one tree.

    CellmeshError
    ├── TaskError                  the user's function raised; also an instance of that exception's own class
    │   └── TaskTimeoutError       (also a TimeoutError) it ran longer than its option timeout allows
    ├── TaskCancelledError         cancel() ended the task
    ├── TaskPlacementGroupRemoved  its placement group was removed
    ├── WorkerCrashedError         the process that ran the task died, and no retries are left
    │   └── OutOfMemoryError       ... because it used more memory than there is
    ├── NodeDiedError              the machine that ran the task was lost, and no retries are left
    ├── TaskUnschedulableError     the node on which alone the task may run is no member of the cluster
    ├── SharedArrayError           a shared array, which stays on its machine, was to leave it
    ├── BrokenSyncError            a barrier or a condition is of no use any more: it was aborted, or reset
    │   └── MemberDiedError        ... or a process that had joined it, or had it locked, died
    ├── ActorAlreadyExistsError    (also a ValueError) the name is that of another actor
    ├── ActorError
    │   ├── ActorDiedError         it ended, was killed, crashed, or its constructor raised
    │   │   ├── ActorPlacementGroupRemoved  ... or its placement group was removed
    │   │   └── GroupMemberDiedError  ... and was a member of a group that needs all of them
    │   ├── ActorUnavailableError  it is being restarted; the call may have been executed
    │   └── PendingCallsLimitExceeded  it has as many calls as max_pending_calls allows; this one was not made
    ├── GroupPlacementError        (also a ValueError) the machines cannot hold an actor group
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
        │   ├── AuthenticationError  (also a PermissionError) ... as there is no key for it, or none that is good
        │   ├── HeadUnreachableError  what only the cluster's head can do is not done, as it does not answer
        │   └── EngineError        the engine (Ray, Dask) that the session is to run on
        │       ├── EngineUnreachableError  ... is not there, or not any more
        │       ├── EngineVersionError  ... has another version of something than this program
        │       └── EngineUnsupportedError  ... cannot do what the call asks for
        └── ForkedClientError      a forked child used its parent's session

Wrong use of an API is Python's own TypeError or ValueError, at the line that did it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import front_end
from .tracebacks import readable_traceback, rendered

__all__ = [
    "ActorAlreadyExistsError",
    "ActorDiedError",
    "ActorError",
    "ActorPlacementGroupRemoved",
    "ActorUnavailableError",
    "AlreadyInitializedError",
    "AuthenticationError",
    "BrokenSyncError",
    "CellmeshError",
    "ChangedInPlaceWarning",
    "ClusterError",
    "EngineError",
    "EngineUnreachableError",
    "EngineUnsupportedError",
    "EngineVersionError",
    "ForkedClientError",
    "GetTimeoutError",
    "GroupMemberDiedError",
    "GroupPlacementError",
    "HeadUnreachableError",
    "InfeasibleResourcesWarning",
    "InsecureEngineWarning",
    "LargeClosureWarning",
    "MemberDiedError",
    "NodeDiedError",
    "NotInitializedError",
    "ObjectLostError",
    "ObjectStoreFullError",
    "OutOfDiskError",
    "OutOfMemoryError",
    "PendingCallsLimitExceeded",
    "RepeatedArgumentWarning",
    "RuntimeEnvSetupError",
    "SessionClosedError",
    "SessionError",
    "SessionLostError",
    "SharedArrayError",
    "StoreCorruptedError",
    "StoreLimitError",
    "TaskCancelledError",
    "TaskError",
    "TaskPlacementGroupRemoved",
    "TaskTimeoutError",
    "TaskUnschedulableError",
    "UnknownArgumentError",
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
        front_end.current.before_error(self.task)
        return rendered(self)


class TaskError(CellmeshError):
    """A task's function raised.

    What `get` raises is an instance of a subclass of both this class and the class of the original exception, so that
    `except ValueError` catches it. That is not possible for exceptions outside `Exception`, nor
    for exceptions whose class cannot be found here; then it is a plain TaskError.

    Attributes
    ----------
    task_name : str
        The display name of the function.
    cause : BaseException or None
        The exception that was raised first, however many tasks waited for each other and let it pass; with what it came
        from (`__cause__`, `__context__`) as far as that could be sent. None if it could not be pickled or not be
        unpickled here.
    cause_type : str
        The name of its class.
    message : str
        Its text.
    remote_traceback : str
        The traceback in the worker, and below it those of the tasks that the error has passed on its way.
    pid : int
        The worker's process id.
    node : str
        Where there are several machines, the name of the worker's.
    note : str
        What else is known, for example why the exception could not be sent as an object.
    frames : tuple of (str, str)
        Where they are kept (option `keep_frames`, `%%remote --keep-frames`, `%config CellmeshMagics.keep_frames =
        True`): for each of the task's frames, the innermost last, where it was and its local variables as text.
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
    record: tuple[Any, ...] | None = None  # what it was made of, and the function that has; None: the user has made it
    made_by: Callable[[tuple[Any, ...], int], TaskError] | None = None

    def __str__(self) -> str:
        note = f"\n\n({self.note})" if self.note else ""
        return (
            f"{self.message or self.cause_type}\n\n{self._where()} Its traceback there:\n\n"
            f"{readable_traceback(self.remote_traceback).rstrip()}{note}"
        )

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
        inputs = front_end.current.inputs_in_words(self.task, self.task_name)
        return (
            f"The task {self.task_name!r} raised it in the worker with pid "
            f"{self.pid}{f' on {self.node}' if self.node else ''}.{' ' if inputs else ''}{inputs}"
        )

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (self.made_by, (self.record, self.task)) if self.made_by is not None else super().__reduce__()


class TaskTimeoutError(TaskError, TimeoutError):
    """An attempt of the task ran longer than its option `timeout` allows, and it is not tried again.

    Attributes
    ----------
    limit_s : float
        How many seconds it may run.
    ran_s : float
        How many it ran.
    """

    limit_s: float = 0.0
    ran_s: float = 0.0

    def __str__(self) -> str:
        if not self.remote_traceback:
            return self.message
        where = (
            readable_traceback(self.remote_traceback)
            .rstrip()
            .removesuffix(f"{__name__}.TaskTimeoutError: {self.message}")
            .rstrip()
        )
        return (
            f"{self.message}\n\nWhere it was then, in the worker with pid "
            f"{self.pid}{f' on {self.node}' if self.node else ''}:\n\n{where}"
        )


class TaskCancelledError(CellmeshError):
    """The task was cancelled before it had a result."""


class TaskPlacementGroupRemoved(CellmeshError):
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


class SharedArrayError(CellmeshError):
    """A shared array was to leave its machine, and cannot: only processes of one machine can share memory. The text
    names the array, and what can be sent in its place.
    """


class BrokenSyncError(CellmeshError, RuntimeError):
    """A `Barrier` or a `Condition` was aborted, or reset while somebody waited for it."""


class MemberDiedError(BrokenSyncError):
    """A process that had joined a `Barrier`, or had locked a `Condition`, died.

    Attributes
    ----------
    pid : int
        Its process id; 0 where it is not known.
    """

    pid: int = 0


class OutOfMemoryError(WorkerCrashedError):
    """The worker was killed because memory ran out."""


class ActorAlreadyExistsError(CellmeshError, ValueError):
    """The name is that of another actor, which is alive."""


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


class ActorPlacementGroupRemoved(ActorDiedError):
    """The placement group that the actor ran in was removed."""


class GroupMemberDiedError(ActorDiedError):
    """A member of an actor group is dead, and the call was to reach it.

    Attributes
    ----------
    rank : int
        Which one.
    cause : BaseException or None
        What its constructor raised, if it did; else the ActorDiedError of the call that it did not serve, if there was
        one.

    Parameters
    ----------
    text : str
    rank : int
    error : ActorDiedError, optional
        What it is known by: its cause, or itself where it has none, is the cause.
    """

    rank: int = -1

    def __init__(self, text: str = "", *, rank: int = -1, error: ActorDiedError | None = None) -> None:
        super().__init__(text)
        self.rank = rank
        if error is not None:
            self.cause: BaseException | None = error.cause or error
            self.exit_code: int = error.exit_code
            self.remote_traceback: str = error.remote_traceback
            self.task: int = error.task


class ActorUnavailableError(ActorError):
    """The actor is being restarted. Whether the call was executed is not known, unless the text says so."""


class PendingCallsLimitExceeded(ActorError):
    """The actor has as many calls queued or running as its option `max_pending_calls` allows. The call was not made."""


class GroupPlacementError(CellmeshError, ValueError):
    """The machines cannot hold an actor group together; the text says what each has, and what is free."""


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
    """Something has overwritten the store's memory, for example an array written out of bounds. The session has ended,
    unless the bytes of one value alone are damaged."""


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
    """The head of the cluster does not answer; what only it can do is not done, or it is not known whether it is.
    Everything else goes on.
    """


class EngineError(ClusterError):
    """The engine (Ray, Dask) that a session is to run its tasks on does not do so; the text says why."""


class EngineUnreachableError(EngineError):
    """The engine is not at its address, or not there any more. What this machine can run goes on."""


class EngineVersionError(EngineError):
    """Python, cellmesh or cloudpickle has another version in the engine's workers than in this program, or is missing
    there. The text has both versions and the remedy.
    """


class EngineUnsupportedError(EngineError):
    """The engine cannot do what a call asks for. The text names the engine, what it is, and the way out."""


class ForkedClientError(SessionError):
    """A child made by os.fork() used the session of its parent."""


class InsecureEngineWarning(UserWarning):
    """Who can reach the engine can run code on it, and here, where its results are unpickled."""


class InfeasibleResourcesWarning(UserWarning):
    """A task asks for more than there will ever be; it waits."""


class ChangedInPlaceWarning(UserWarning):
    """A variable that a function captures was changed in place between calls, some of which may not have seen it."""


class LargeClosureWarning(UserWarning):
    """A function or class captures much data, which travels with it."""


class RepeatedArgumentWarning(UserWarning):
    """The same large value was an argument of many calls, each of which looks through it."""
