"""A failed object's record, back as the exception that `get` raises.

A failed object holds a tuple. From workers: (kind, function name, exception type, message, traceback, pickled
exception (`describe.Pickled`), pid, note), perhaps followed by what was kept of the frames, with kind "task_error", or
with kind "actor_init" and the constructor's number at the end; from the core: ("system", code, detail, task number);
in the place of something shared on another machine: ("shared", what it is).
`describe` writes the first kind, `make_error` reads all.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from .. import front_end
from ..exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    CellmeshError,
    NodeDiedError,
    ObjectLostError,
    ObjectStoreFullError,
    OutOfMemoryError,
    SharedArrayError,
    StoreCorruptedError,
    TaskCancelledError,
    TaskError,
    TaskPlacementGroupRemoved,
    TaskTimeoutError,
    TaskUnschedulableError,
    WorkerCrashedError,
)
from ..exit_codes import DIED_WITH_ITS_MACHINE, ENDED_ON_PURPOSE, ENDED_SOMEHOW, EXITED, NOT_BEGUN, how_it_ended
from ..session.current import current_or_none
from ..session.placement_labels import label_of
from ..text import in_one_line
from ..tracebacks import readable_traceback
from .describe import MAX_NOTE, Pickled, text_of
from .escapes import ends_process

TIMEOUT_GRACE_S = 5.0  # as in the core: from its interruption a task that ran too long has so long to end


def make_error(
    record: tuple[Any, ...],
    task_name: str = "",
    task: int = 0,
    spelled: Callable[[str], str] = lambda option: f"option {option}",
) -> BaseException:
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
        How the user has written an option of the task.
    """
    kind, *_ = record
    if kind == "system":
        error: BaseException = _system_error(record, task_name, spelled)
    elif kind == "shared":
        error = shared_stays(record[1])
    else:
        error = _constructor_error(record) if kind == "actor_init" else error_of(record, task)
    return front_end.dialect.adapted(record, error)


def error_of(record: tuple[Any, ...], task: int) -> TaskError:
    """The error of a task whose function raised, by the record that its worker wrote."""
    _, name, cause_type, message, remote_traceback, pickled, place, note, *kept = record
    pid, node = place if isinstance(place, tuple) else (place, "")
    cause, problem = _load_cause(pickled)
    error = _instance_of_both(cause) if cause is not None else TaskError()
    error.task_name, error.cause, error.cause_type, error.message = name, cause, cause_type, message
    error.remote_traceback, error.pid, error.node, error.task = remote_traceback, pid, node, task
    error.note = "; ".join(filter(None, (note, problem)))
    error.frames, error.kept = kept or ((), None)
    error.record, error.made_by = record, error_of
    return error


def _load_cause(pickled: Pickled) -> tuple[BaseException | None, str]:
    if pickled is None:
        return None, ""
    from ..objstore.serialization import unpickle

    (first, direct), *links = pickled if isinstance(pickled, tuple) else ((pickled, False),)
    try:
        cause = link = unpickle(first, ())
    except BaseException as problem:  # the user's classes may do anything here; the error itself must still arrive
        if ends_process(problem):
            raise
        said = text_of(problem, MAX_NOTE)
        return None, f"the exception could not be unpickled here, this is its text: {type(problem).__name__}: {said}"
    for data, next_direct in links:
        try:
            earlier = unpickle(data, ())
        except BaseException as problem:  # the user's classes again; the text has all of it
            if ends_process(problem):
                raise
            break
        setattr(link, "__cause__" if direct else "__context__", earlier)
        link, direct = earlier, next_direct
    return cause, ""


@lru_cache(maxsize=512)
def _class_of_both(cause_type: type[Exception]) -> type[TaskError]:
    """A subclass of TaskError and of the class; TaskError itself where Python does not allow one."""

    def namespace(body: dict[str, Any]) -> None:
        body.update(__module__=TaskError.__module__, __doc__=cause_type.__doc__)

    if issubclass(cause_type, TaskError):
        return cause_type
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
    except BaseException as problem:  # for instance a group that may not nest what it holds
        if ends_process(problem):
            raise
        return TaskError()


@lru_cache(maxsize=512)
def _fields_of(cls: type[BaseException]) -> tuple[str, ...]:
    """What its instances keep outside their `__dict__`: in C structs (OSError.filename) and `__slots__`."""
    bases = cls.__mro__[: cls.__mro__.index(BaseException)]
    return tuple(
        name for base in bases for name, member in vars(base).items() if isinstance(member, types.MemberDescriptorType)
    )


def _copy_into(both: type[TaskError], cause: BaseException) -> TaskError:
    """An instance that carries everything the cause carries, made without calling the user's `__new__` and
    `__init__`."""
    from ..objstore.exception_pickles import ARGS, make

    error: Any = make(both, ARGS.__get__(cause))
    ARGS.__set__(error, ARGS.__get__(cause))
    for name in _fields_of(type(cause)):
        try:
            setattr(error, name, getattr(cause, name))
        except (AttributeError, TypeError):  # unset or read-only: __new__ has made it
            continue
    error.__dict__.update(vars(cause))
    error.__dict__.pop("__notes__", None)  # the traceback has them
    return error


def _constructor_error(record: tuple[Any, ...]) -> ActorDiedError:
    _, name, cause_type, message, remote_traceback, pickled, place, note, *_, task = record
    pid, node = place if isinstance(place, tuple) else (place, "")
    cause, problem = _load_cause(pickled)
    notes = "; ".join(filter(None, (note, problem)))
    inputs = front_end.current.inputs_in_words(task, name)
    text = (
        f"the constructor of actor {name!r} raised {cause_type}: {message}\n\n{inputs}{' ' if inputs else ''}Its "
        "traceback in "
        f"the worker with pid {pid}{f' on {node}' if node else ''}:\n\n{readable_traceback(remote_traceback).rstrip()}"
    )
    error = ActorDiedError(f"{text}\n\n({notes})" if notes else text)
    error.cause, error.remote_traceback, error.task = cause, remote_traceback, task
    return error


def _system_error(record: tuple[Any, ...], name: str, spelled: Callable[[str], str]) -> CellmeshError:
    _, code, detail, seq = record
    task = f"the task {name!r}" if name else f"task number {seq}"
    if code == "worker_crashed" and detail >= EXITED:
        return _with_exit_code(
            WorkerCrashedError(
                f"{task} called sys.exit(), so that its worker {how_it_ended(detail - EXITED)}, and it has no retries "
                f"left ({spelled('max_retries')})"
            ),
            detail - EXITED,
        )
    if code == "worker_crashed":
        return _with_exit_code(
            WorkerCrashedError(
                f"the worker that ran {task} {how_it_ended(detail)}, and the task has no retries left "
                f"({spelled('max_retries')})"
            ),
            detail,
        )
    if code == "out_of_memory":
        return _with_exit_code(
            OutOfMemoryError(
                f"the worker that ran {task} was killed because memory ran out: let it hold less at a time, or run "
                f"fewer at once ({spelled('memory')}, {spelled('num_cpus')})"
            ),
            detail,
        )
    if code == "cancelled":
        return TaskCancelledError(f"{task} was cancelled")
    if code == "actor_died":
        if detail == DIED_WITH_ITS_MACHINE:
            return ActorDiedError(
                f"the actor that {task} calls is dead: the machine where it lived was lost, and it has no restarts "
                "left (option max_restarts)"
            )
        if detail in ENDED_ON_PURPOSE:
            return ActorDiedError(f"the actor that {task} calls is dead: {ENDED_ON_PURPOSE[detail]}")
        return _with_exit_code(
            ActorDiedError(f"the actor that {task} calls is dead: its process {how_it_ended(detail)}"), detail
        )
    if code in ("unplaced", "actor_unplaced"):
        if code == "unplaced":
            return TaskPlacementGroupRemoved(f"{label_of(detail)} of {task} has been removed")
        return ActorPlacementGroupRemoved(
            f"the actor that {task} calls is dead: its {label_of(detail)} has been removed"
        )
    if code == "actor_unavailable" and detail == NOT_BEGUN:
        return ActorUnavailableError(
            f"The actor is restarting, and {task} has not been begun: make the call again later, or have it wait "
            "(option max_task_retries)"
        )
    if code == "actor_unavailable":
        return ActorUnavailableError(
            f"the actor's process ended while it ran {task}, and the actor restarts: the call "
            "may have been executed or not (option max_task_retries repeats it)"
        )
    if code == "node_died":
        return NodeDiedError(
            f"the machine that ran {task} was lost, and the task has no retries left ({spelled('max_retries')})"
        )
    if code == "cannot_leave":
        return CellmeshError(
            f"{task} was to go to another machine, or what it made, and cannot: the generator of another task, and an "
            "actor with very many methods, stay on the machine where they are made"
        )
    if code == "shared_stays":
        of = current_or_none()
        return shared_stays(of.client.shared_forms(detail) if of is not None and detail >= 0 else None, task)
    if code == "unrouted":
        return TaskUnschedulableError(f"{task} can run nowhere: {_where_it_was_to_run(detail)}")
    if code == "too_deep":
        return TaskUnschedulableError(
            f"{task} can never begin: {detail} processes run, as many as a machine may have, and all of them wait in "
            "get() or wait() for tasks like this one, or are actors that have nothing to do. A function that calls "
            "itself remotely needs a process for each level; call it plainly below some level, or pass the ref on to a "
            "task that takes it as an argument, which waits without a process"
        )
    if code == "object_lost":
        return ObjectLostError(f"the object that {task} made is gone, together with the process that held it")
    if code == "timed_out":
        timeout = task_timeout(name or str(seq), detail / 1000, detail / 1000 + TIMEOUT_GRACE_S, killed=True)
        timeout.task = seq
        return timeout
    if code == "store_full":
        return ObjectStoreFullError(
            f"the result of {task} did not fit into the object store, nor did a description of "
            "the error: drop references that are no longer needed, or start with a larger "
            "object_store_memory"
        )
    if code == "unknown":  # no process writes that
        return StoreCorruptedError(
            f"the result of {task if name or seq else 'a task'} cannot be read: something has overwritten why it "
            f"failed ({code!r} with {detail} means nothing)"
        )
    return CellmeshError(f"{task} failed: {code} ({detail})")


def shared_stays(forms: Sequence[Any] | None, task: str = "") -> SharedArrayError:
    """The error of who would have something shared on another machine.

    Parameters
    ----------
    forms : sequence, optional
        As `Client.shared_forms` gives them.
    task : str
        Which task was to run there; "": a value has arrived there.
    """
    what = ", ".join(map(_in_words, forms or ())) or "something shared, which is gone"
    is_array = not forms or not isinstance(forms[0], str)
    remedy = (
        "Send a copy, array.copy() or put(array.copy()), which others read and do not write"
        if is_array
        else "Have all that use it run on one machine"
    )
    who = f"{task} was to run on another machine, and needs" if task else "this process would use, on another machine,"
    return SharedArrayError(f"{who} {what}. Only processes of one machine can share memory. {remedy}.")


def _in_words(form: Any) -> str:
    if isinstance(form, str):
        return form
    name, dtype, shape = form
    return f"the shared array {f'{name!r} ' if name else ''}of shape {tuple(shape)} and dtype {dtype}"


def task_timeout(name: str, limit_s: float, ran_s: float, *, killed: bool = False) -> TaskTimeoutError:
    """The error of a task that ran `ran_s` seconds, and may run `limit_s`."""
    how = (
        "it did not end when it was interrupted, so its process was killed"
        if killed
        else f"it was interrupted after {ran_s:.3g} s"
    )
    error = TaskTimeoutError(
        f"the task {name!r} ran longer than the {limit_s:g} s that its option timeout allows: {how}. Give it a longer "
        "timeout, or less to do; retry_exceptions=[TimeoutError] has it tried again"
    )
    error.task_name, error.message, error.cause_type = name, str(error.args[0]), TaskTimeoutError.__name__
    error.limit_s, error.ran_s = limit_s, ran_s
    return error


def _where_it_was_to_run(resource_class: int) -> str:
    of = current_or_none()
    text = of.client.strategy(resource_class) if of is not None and resource_class >= 0 else ""
    if not text:
        return "the node that it was to run on is no member of the cluster"
    from ..scheduler.cluster.agent.strategies import from_text

    wish = from_text(text)
    if wish.kind == "node":
        return (
            f"no node of the cluster has the id, name or number {wish.node!r} (cellmesh.nodes() lists them), and "
            "soft=False allows no other; or it cannot be sent to another node (docs/cluster.md says what cannot)"
        )
    return (
        f"it must run where {', '.join(f'{key}={value}' for key, value in wish.labels.items())} holds, and this "
        "session is in no cluster any more, or it cannot be sent to another node (docs/cluster.md says what cannot)"
    )


def _with_exit_code(error: Any, exit_code: int) -> Any:
    error.exit_code = 0 if exit_code == ENDED_SOMEHOW else exit_code
    return error
