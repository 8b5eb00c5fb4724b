"""The calls of the public API: what they accept, and what they say when it is wrong. What they do is done elsewhere.

`get` and `put` stand in `objects`; `wait`, `as_completed` and what else waits for several stand in `waiting`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from .session.current import current, running
from .session.session import Session
from .submit.described import takes_options

if TYPE_CHECKING:
    from typing import Unpack

    from .groups.actor_group import ActorGroup
    from .refs import ObjectRef
    from .submit.actor import ActorHandle
    from .submit.actor_class import ActorClass
    from .submit.generator import ObjectRefGenerator
    from .submit.remote_function import RemoteFunction
    from .tasks.runtime_context import RuntimeContext
    from .typed import C, ClassOf, Decorator, FunctionDecorator, OnlyAny, P, R, Refs, RemoteOptions, Several, Y

T = TypeVar("T")
Item = TypeVar("Item")


# ---------------------------------------------------------------- tasks and actors
# Classes come first: they can be called too, and there is no type for "what can be called and is no class".
@overload
def remote(target: ClassOf[P, C], /) -> ActorClass[C, Callable[P, C]]: ...  # pyright: ignore[reportOverlappingOverload] (see above: classes come first)
@overload
def remote(target: type[C], /) -> ActorClass[C, type[C]]: ...
@overload
def remote(target: Callable[P, OnlyAny], /) -> RemoteFunction[P, Any]: ...
@overload
def remote(
    target: Callable[P, Iterator[Y] | AsyncIterator[Y]], /
) -> RemoteFunction[P, Iterator[Y], ObjectRefGenerator[Y]]: ...
@overload
def remote(target: Callable[P, R], /) -> RemoteFunction[P, R]: ...
@overload
def remote(**options: Unpack[RemoteOptions]) -> Decorator: ...
@overload
def remote(*, num_returns: Literal[0], **options: Unpack[RemoteOptions]) -> FunctionDecorator[None]: ...
@overload
def remote(*, num_returns: Literal[1, "streaming"], **options: Unpack[RemoteOptions]) -> Decorator: ...
@overload
def remote(
    *, num_returns: Literal["dynamic"], **options: Unpack[RemoteOptions]
) -> FunctionDecorator[ObjectRef[list[ObjectRef[Any]]]]: ...
@overload
def remote(*, num_returns: Several, **options: Unpack[RemoteOptions]) -> FunctionDecorator[list[ObjectRef[Any]]]: ...
@overload
def remote(*, num_returns: int, **options: Unpack[RemoteOptions]) -> FunctionDecorator[Any]: ...


@takes_options("task", "actor")
def remote(*targets: Any, **options: Any) -> Any:
    """Make a function a remote function, or a class an actor class.

    As a decorator, plain or with options: `@cellmesh.remote`, `@cellmesh.remote(num_cpus=2)`; or as a call,
    `cellmesh.remote(f)`, also of a partial, a bound method, a builtin function or another object that can be called.

    Parameters
    ----------
    num_cpus, num_gpus, memory : float
        What a task or actor needs; default 1 CPU for a task; for an actor 1 CPU to be placed, none to stay.
    resources : dict of str to float
        Custom resources that it needs.
    num_returns : int, "streaming" or "dynamic"
        Tasks: how many refs `.remote` returns; default 1. With n > 1 the function returns n values. A generator
        function gives an ObjectRefGenerator, which hands out refs while the task runs ("streaming", its default), or
        one ref to a list of refs ("dynamic").
    generator_backpressure_num_objects : int
        Generators: how many items they may be ahead of their reader; default: any number.
    max_retries : int
        Tasks: how often to run it again when its worker dies; default 3; -1: for ever.
    retry_exceptions : bool or list of exception classes
        Tasks: whether to run it again, also within `max_retries`, when it raises; default False.
    retry_delay : float, or tuple of two
        Tasks: seconds to wait before the first retry, of whatever reason. Each further wait is twice as long, up to 60
        seconds, or up to the second number of (first, longest); equal ones keep it the same. Each is longer or shorter
        by up to a quarter, at random. Default 0.
    timeout : float
        Tasks: seconds that an attempt may run, from the call of the function to its end; not counted is what comes
        before: waiting for arguments, resources and the next attempt, fetching code and arguments. Then it is
        interrupted as by `cancel`, and its process killed if it has not ended 5 seconds later: TaskTimeoutError. It is
        tried again, within `max_retries`, if `retry_exceptions` is True or has TimeoutError. Default: for ever.
    name : str
        Tasks: what it is called in listings. Actors: how `get_actor` finds it.
    max_calls : int
        Tasks: after so many calls of the function a worker process ends, and what it has leaked with it; default 0:
        never, with GPUs 1.
    namespace, get_if_exists, lifetime, max_restarts, max_task_retries, max_concurrency
        Actors: where the name is looked up; whether to return the actor of that name if it is alive; "detached" to
        outlive its handles, and this process too, whose next run finds it again (see `init`); how often to start it
        again when its process dies, default 0; how often to repeat a call then, default 0; how many calls run at a
        time, default 1, with async methods 1000.
    concurrency_groups : dict of str to int
        Actors: how many calls of each group run at a time, beside `max_concurrency` of those in none; a method's group
        is set by `@method(concurrency_group=...)` or `.options(concurrency_group=...)`. Each has threads of its own, or
        in an async actor a loop of its own in a thread of its own.
    max_pending_calls : int
        Actors: calls queued or running; another one raises PendingCallsLimitExceeded. Default -1: any number.
    allow_out_of_order_execution : bool
        Actors: whether a call may overtake an earlier one of the same caller whose arguments are not there yet;
        default: only in async actors and those with max_concurrency > 1.
    priority : int
        Of what waits, higher ones begin first, for actors: are made first; from -100 to 100, default 0, or that of the
        task which submits it. Nothing that runs is interrupted.
    max_in_flight : int
        Tasks: at most so many of the function run at a time in the session; default: any number. A task keeps its place
        while it waits for others.
    rate_limit : str or float
        Tasks: how often tasks of the function start, "10/s", "100/m", "5/h" or a number of starts a second, at most
        1000: evenly spaced, without bursts. Each attempt counts. Default: any number.
    scheduling_strategy : "DEFAULT", "SPREAD", or a PlacementGroup-, NodeAffinity- or NodeLabelSchedulingStrategy
        Where to place it; on one machine the words mean the same. The classes, and `placement_group`, are in
        `cellmesh.util`.
    label_selector : dict of str to str
        Labels that a node must have: {"zone": "eu"}, {"zone": "in(eu,us)"}, {"zone": "!eu"}. One machine alone does not
        look at it.
    keep_frames : bool
        Whether the worker keeps the frames of what fails, its last three failures, for `%inspect --pdb`; the error has
        their variables as text in `frames`. Default False.
    readonly : bool
        Whether the arrays that it is given are read-only views, which all readers share, and not its own to change.
        Default False.
    runtime_env : dict
        What its process is given: `env_vars`, environment variables; `working_dir`, a folder to work in and import
        from; `py_modules`, paths of modules or packages to import; `pip`, a list of requirements (or the path of a file
        of them), which are installed once, by uv or pip, into the user's cache, and come before the packages of the
        driver; `worker_process_setup_hook`, a function run once. Tasks and actors inherit it from the task that submits
        them; variables are merged. A process serves one environment.

    Raises
    ------
    TypeError
        What is decorated is neither a function nor a class, or is a coroutine function.
    ValueError
        An option is unknown or has a value that it does not take.
    """
    if not targets:
        return lambda target: _make_remote(target, options)
    if len(targets) == 1 and not options:
        return _make_remote(targets[0], {})
    raise TypeError(
        "remote() is used as @remote, as @remote(option=value), or as remote(f) with one function or "
        "class; options are keywords: remote(option=value)(f)"
    )


def _make_remote(target: Any, options: dict[str, Any]) -> Any:
    if inspect.isclass(target):
        from .submit.actor_class import make_actor_class

        return make_actor_class(target, options)
    if hasattr(type(target), "__cellmesh_code__"):
        raise TypeError(f"{target!r} is remote already: use .options(...) to change its options")
    if callable(target):
        from .submit.remote_function import make_remote_function

        return make_remote_function(target, options)
    raise TypeError(
        f"remote() needs a function or a class, not {_shown(target)}: wrap it in a function, "
        f"@cellmesh.remote above def f(...): ..."
    )


def get_actor(name: str, namespace: str | None = None) -> ActorHandle[Any]:
    """The handle of a living actor that was given a name.

    Raises
    ------
    ValueError
        No actor of that name is alive in the namespace.
    """
    from .submit.actor import find_actor

    if not isinstance(name, str) or not name:
        raise ValueError(f"get_actor() needs the name of an actor, a string that is not empty, not {_shown(name)}")
    of = current()
    found = find_actor(of, name, namespace)
    if found is None:
        raise ValueError(
            f"no actor named {name!r} is alive in namespace {namespace or of.namespace!r}: "
            f"{_named_actors(name, namespace or of.namespace)}{_other_sessions(of)}"
        )
    return found


def _named_actors(name: str, namespace: str) -> str:
    """What there is in place of an actor of that name: one of another namespace first of all."""
    from .submit.actor_names import living

    named = living(running())
    others = sorted({where for where, called in named if called == name} - {namespace})
    if others:
        more = f", and {len(others) - 1} more namespaces have one" if others[1:] else ""
        return f"there is one in another, get_actor({name!r}, namespace={others[0]!r}){more}"
    known = sorted(
        {called if where == namespace else f"{called} (namespace {where})" for where, called in named if called != name}
    )
    return f"those with names are {', '.join(map(repr, known[:10]))}" if known else "no living actor has a name"


def _other_sessions(of: Session) -> str:
    """Where else there may be an actor, for a process that has begun a session of its own."""
    from .scheduler.node import session_dir

    if (
        of.is_worker
        or of.config.address
        or not [path for path in session_dir.alive() if session_dir.id_of(path) != of.node.session_id]
    ):
        return ""
    return (
        ". Actors of another notebook or program are in its session: cellmesh.shutdown() here, and then "
        "cellmesh.init('auto') joins the youngest on this machine"
    )


def kill(actor: ActorHandle[Any] | ActorGroup[Any], *, no_restart: bool = True) -> None:
    """End an actor's process at once; running and queued calls raise ActorDiedError.

    Parameters
    ----------
    actor : ActorHandle, or ActorGroup for all its members
    no_restart : bool
        False: an actor with restarts left is started again, as after a crash.
    """
    from .groups.actor_group import ActorGroup
    from .submit.actor import ActorHandle

    if isinstance(actor, ActorGroup):
        for member in actor:
            kill(member, no_restart=no_restart)
        return
    if not isinstance(actor, ActorHandle):
        raise TypeError(
            f"kill() ends actors and needs a handle, not {_shown(actor)}; tasks are ended by cellmesh.cancel(ref)"
        )
    of = current()
    of.note_killed(of.client.kill_actor(of.called(actor._cellmesh_ref), no_restart))


def cancel(ref: Refs, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the task that makes a value, or those of all refs in a container. A task that has ended stays as it is.

    A task that waits is dropped; in one that runs KeyboardInterrupt is raised, in an async actor's call CancelledError.
    `get` then raises TaskCancelledError. A call that ignores the exception ends with its own result.

    Parameters
    ----------
    ref : ObjectRef, ObjectRefGenerator, or list, tuple, dict or set of them
    force : bool
        Kill the worker of a running task instead. Not for calls of actors.
    recursive : bool
        Cancel the tasks that the task has started too.

    Raises
    ------
    TypeError, ValueError
        One of them has no task, or `force` does not go with it. Then nothing has been cancelled.
    """
    from .objstore._core import PUT_BIT
    from .refs import ObjectRef
    from .submit.actor import ActorHandle
    from .submit.cancel import cancel_task
    from .tasks.containers import refs_of

    if isinstance(ref, ActorHandle):
        raise TypeError("cancel() ends tasks and needs an ObjectRef; actors are ended by cellmesh.kill(actor)")
    tasks = [one if type(one) is ObjectRef else one.completed() for one in refs_of(ref, "cancel", generators=True)]
    client = current().client
    for task in tasks:
        if task.creator & PUT_BIT:
            raise ValueError(
                f"{'this' if task is ref else 'an'} ObjectRef was made by put(), there is no task to cancel; its "
                "memory is freed when the last ref goes (del)"
            )
        if force and client.info(task)["actor"] >= 0:
            raise ValueError(
                "force=True is not supported for calls of actors, as it would kill the whole actor: use cancel(ref) "
                "for this call, or cellmesh.kill(actor)"
            )
    for task in client.cancel_pending(tasks):
        cancel_task(task, force=force, recursive=recursive)


def exit_actor() -> None:
    """Called by an actor's method: end the actor, without restart. The calls under way and queued raise ActorDiedError.

    `atexit` functions of the actor's process are run. `sys.exit(0)` does the same; `sys.exit` with another status is a
    crash, after which `max_restarts` lets the actor begin again.
    """
    of = current()
    info = of.client.actor_info() if of.is_worker else None
    if info is None:
        raise RuntimeError("exit_actor() ends the actor whose method calls it, and this is not an actor's process")
    from .errors.process_exit import leave_actor

    leave_actor(of.client, 0)


def save_checkpoint(state: Any) -> None:
    """Called by an actor: keep `state` for its next life, in place of what it kept before.

    The object store keeps it as long as the actor lives, through the death of its process and, in a cluster, of the
    machine where it lives: it is copied to the machine where the actor was made, which takes a moment.

    Parameters
    ----------
    state : object
        Anything that can be stored. What the actor changes in it later is not kept.

    Raises
    ------
    RuntimeError
        This is not an actor's process.
    """
    of = current()
    if not of.is_worker or of.client.actor_info() is None:
        raise RuntimeError(
            "save_checkpoint() keeps the state of the actor whose method calls it, and this is not an actor's process"
        )
    of.client.save_checkpoint(state)


def load_checkpoint(default: Any = None) -> Any:
    """Called by an actor, in its constructor mostly: what `save_checkpoint` kept last; `default` if it never has.

        @cm.remote(max_restarts=-1)
        class Walk:
            def __init__(self):
                self.steps = cm.load_checkpoint(default=0)

    Calls made after the last checkpoint have left no trace in it; those that were running when the process died are
    repeated if `max_task_retries` allows it.

    Raises
    ------
    RuntimeError
        This is not an actor's process.
    """
    of = current()
    info = of.client.actor_info() if of.is_worker else None
    if info is None:
        raise RuntimeError("load_checkpoint() is for actors, and this is not an actor's process")
    return default if info["checkpoint"] is None else of.client.get(info["checkpoint"])


# ---------------------------------------------------------------- looking
def nodes() -> list[dict[str, Any]]:
    """The machines that the session's tasks can run on, this one first, with what they have. Starts no session.

    In a cluster those that are lost, too: `State` is alive, draining or dead, and `Reason` why. `Number` is the node's
    in the cluster.
    """
    from .observe import nodes

    return nodes.rows(running())


def cluster_resources() -> dict[str, float]:
    """What all nodes together have: amount by resource name. Starts no session."""
    from .observe import nodes

    return nodes.amounts(running(), "Resources")


def available_resources() -> dict[str, float]:
    """What no task or actor holds now of `cluster_resources`. Starts no session."""
    from .observe import nodes

    return nodes.amounts(running(), "Available")


def get_runtime_context() -> RuntimeContext:
    """Where the caller runs: which task, actor, worker and node."""
    from .tasks.runtime_context import RuntimeContext

    return RuntimeContext(current())


def get_gpu_ids() -> list[str]:
    """The GPUs of the running task or actor, as CUDA_VISIBLE_DEVICES names them; [] outside, and without `num_gpus`."""
    from .environment import gpus

    return list(gpus.ids)


def error_info() -> list[dict[str, Any]]:
    """Tasks that failed lately, whether or not anybody fetched their values: task, name, type (failed or crashed),
    message as far as it is known here, pid, time. Starts no session."""
    from .observe.history import read_history

    of = running()
    return [
        {
            "task": task.seq,
            "name": task.name,
            "type": task.state,
            "message": of.errors.of(task.seq)[0],
            "pid": task.pid,
            "time": task.finished_at,
        }
        for task in read_history(of.client)
        if task.state in ("failed", "crashed")
    ]


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """The recent tasks as a Chrome trace (chrome://tracing, Perfetto): who ran what, when, and what depended on what.

    Parameters
    ----------
    filename : str, optional
        Where to write it; None: return the events instead. Starts no session.
    """
    from .observe.chrome_trace import chrome_trace

    events = chrome_trace(running().client)
    if filename is None:
        return events
    import json

    with open(filename, "w", encoding="utf-8") as file:
        json.dump(events, file)
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"
