"""The calls of the public API: what they accept, and what they say when it is wrong. What they do is done elsewhere."""
from __future__ import annotations

import inspect
import numbers
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import session as sessions
from .session import current

if TYPE_CHECKING:
    from .actor import ActorClass, ActorHandle
    from .context import Context
    from .generator import ObjectRefGenerator
    from .objstore._core import Client
    from .refs import ObjectRef
    from .remote_function import RemoteFunction
    from .runtime_context import RuntimeContext


# ---------------------------------------------------------------- tasks and actors
@overload
def remote(target: type, /) -> ActorClass: ...
@overload
def remote(target: Callable[..., Any], /) -> RemoteFunction[..., Any]: ...
@overload
def remote(**options: Any) -> Callable[[Any], Any]: ...


def remote(*targets: Any, **options: Any) -> Any:
    """Make a function a remote function, or a class an actor class.

    As a decorator, plain or with options: `@cellmesh.remote`, `@cellmesh.remote(num_cpus=2)`; or as a call,
    `cellmesh.remote(f)`.

    Parameters
    ----------
    num_cpus, num_gpus, memory : float
        What a task or actor needs; default 1 CPU for a task; for an actor 1 CPU to be placed, none to stay.
    resources : dict of str to float
        Custom resources that it needs.
    num_returns : int, "streaming" or "dynamic"
        Tasks: how many refs `.remote` returns; default 1. With n > 1 the function returns n values. A generator function
        gives an ObjectRefGenerator, which hands out refs while the task runs ("streaming", its default), or one ref to
        a list of refs ("dynamic").
    generator_backpressure_num_objects : int
        Generators: how many items they may be ahead of their reader; default: any number.
    max_retries : int
        Tasks: how often to run it again when its worker dies; default 3; -1: for ever.
    retry_exceptions : bool or list of exception classes
        Tasks: whether to run it again, also within `max_retries`, when it raises; default False.
    name : str
        Tasks: what it is called in listings. Actors: how `get_actor` finds it.
    max_calls : int
        Tasks: after so many calls of the function a worker process ends, and what it has leaked with it; default 0: never,
        with GPUs 1.
    namespace, get_if_exists, lifetime, max_restarts, max_task_retries, max_concurrency
        Actors: where the name is looked up; whether to return the actor of that name if it is alive; "detached" to
        outlive its handles, and this process too, whose next run finds it again (see `init`); how often to start it anew
        when its process dies, default 0; how often to repeat a call then, default 0; how many calls run at a time, default
        1, with async methods 1000.
    concurrency_groups : dict of str to int
        Actors: how many calls of each group run at a time, beside `max_concurrency` of those in none; a method's group is
        set by `@method(concurrency_group=...)` or `.options(concurrency_group=...)`.
    max_pending_calls : int
        Actors: calls queued or running; another one raises PendingCallsLimitExceeded. Default -1: any number.
    allow_out_of_order_execution : bool
        Actors: whether a call may overtake an earlier one of the same caller whose arguments are not there yet; default:
        only in async actors and those with max_concurrency > 1.
    scheduling_strategy : "DEFAULT", "SPREAD", or a PlacementGroup-, NodeAffinity- or NodeLabelSchedulingStrategy
        Where to place it; on one machine the words mean the same. The classes, and `placement_group`, are in `cellmesh.util`.
    label_selector : dict of str to str
        Labels that a node must have: {"zone": "eu"}, {"zone": "in(eu,us)"}, {"zone": "!eu"}. One machine alone does not look at it.
    runtime_env : dict
        What its process is given: `env_vars`, environment variables; `working_dir`, a folder to work in and import from;
        `py_modules`, paths of modules or packages to import; `worker_process_setup_hook`, a function run once. Tasks and
        actors inherit it from the task that submits them; variables are merged. A process serves one environment.

    Raises
    ------
    TypeError
        What is decorated is neither a function nor a class, or is a coroutine function.
    ValueError
        An option is unknown or has a value that it does not take.
    """
    if not targets:
        return lambda target: _make_remote(target, options)
    if len(targets) > 1 or options:
        raise TypeError("remote() is used as @remote, as @remote(option=value), or as remote(f) with one function or "
                        "class; options are keywords: remote(option=value)(f)")
    return _make_remote(targets[0], {})


def _make_remote(target: Any, options: dict[str, Any]) -> Any:
    if inspect.isclass(target):
        from .actor import make_actor_class
        return make_actor_class(target, options)
    if inspect.isroutine(target):
        from .remote_function import make_remote_function
        return make_remote_function(target, options)
    if hasattr(type(target), "__cellmesh_code__"):
        raise TypeError(f"{target!r} is remote already: use .options(...) to change its options")
    raise TypeError(f"remote() needs a function or a class, not {_shown(target)}: wrap it in a function, "
                    f"@cellmesh.remote above def f(...): ...")


def get_actor(name: str, namespace: str | None = None) -> ActorHandle:
    """The handle of a living actor that was given a name.

    Raises
    ------
    ValueError
        No actor of that name is alive in the namespace.
    """
    from .actor import find_actor
    if not isinstance(name, str) or not name:
        raise ValueError(f"get_actor() needs the name of an actor, a string that is not empty, not {_shown(name)}")
    of = current()
    found = find_actor(of, name, namespace)
    if found is None:
        raise ValueError(f"no actor named {name!r} is alive in namespace {namespace or of.namespace!r}: "
                         f"{_named_actors(name, namespace or of.namespace)}")
    return found


def _named_actors(name: str, namespace: str) -> str:
    """What there is in place of an actor of that name: one of another namespace first of all."""
    from .util import list_named_actors
    named = list_named_actors(all_namespaces=True)
    others = sorted({row["namespace"] for row in named if row["name"] == name} - {namespace})
    if others:
        more = f", and {len(others) - 1} more namespaces have one" if others[1:] else ""
        return f"there is one in another, get_actor({name!r}, namespace={others[0]!r}){more}"
    known = sorted({row["name"] if row["namespace"] == namespace else f"{row['name']} (namespace {row['namespace']})"
                    for row in named if row["name"] != name})
    return f"those with names are {', '.join(map(repr, known[:10]))}" if known else "no living actor has a name"


def kill(actor: ActorHandle, *, no_restart: bool = True) -> None:
    """End an actor's process at once; running and queued calls raise ActorDiedError.

    Parameters
    ----------
    actor : ActorHandle
    no_restart : bool
        False: an actor with restarts left is started anew, as after a crash.
    """
    from .actor import ActorHandle
    if not isinstance(actor, ActorHandle):
        raise TypeError(f"kill() ends actors and needs a handle, not {_shown(actor)}; tasks are ended by "
                        "cellmesh.cancel(ref)")
    current().client.kill_actor(actor._cellmesh_ref, no_restart)


def cancel(ref: ObjectRef | ObjectRefGenerator, *, force: bool = False, recursive: bool = True) -> None:
    """Cancel the task that makes a value. A task that has ended stays as it is.

    A task that waits is dropped; in one that runs KeyboardInterrupt is raised, in an async actor's call CancelledError.
    `get` then raises TaskCancelledError. A call that ignores the exception ends with its own result.

    Parameters
    ----------
    ref : ObjectRef or ObjectRefGenerator
    force : bool
        Kill the worker of a running task instead. Not for calls of actors.
    recursive : bool
        Cancel the tasks that the task has started too.
    """
    from .generator import ObjectRefGenerator
    from .refs import ObjectRef
    if isinstance(ref, ObjectRefGenerator):
        ref = ref.completed()
    if not isinstance(ref, ObjectRef):
        from .actor import ActorHandle
        if isinstance(ref, ActorHandle):
            raise TypeError("cancel() ends tasks and needs an ObjectRef; actors are ended by cellmesh.kill(actor)")
        raise TypeError(f"cancel() needs the ObjectRef of a task, not {_shown(ref)}")
    client = current().client
    info = client.info(ref)
    if info["put"]:
        raise ValueError("this ObjectRef was made by put(), there is no task to cancel; its memory is freed when the "
                         "last ref goes (del)")
    if force and info["actor"] >= 0:
        raise ValueError("force=True would kill the whole actor, with all its calls: use cancel(ref) for this call, or "
                         "cellmesh.kill(actor)")
    outcome, _, seq = client.cancel(ref, force)
    if recursive and outcome in ("running", "actor"):
        for child in client.children(seq):
            cancel(child, force=force and client.info(child)["actor"] < 0, recursive=True)


def exit_actor() -> None:
    """Called by an actor's method: end the actor, without restart. The calls under way and queued raise ActorDiedError.

    `atexit` functions of the actor's process are run.
    """
    of = current()
    info = of.client.actor_info() if of.is_worker else None
    if info is None:
        raise RuntimeError("exit_actor() ends the actor whose method calls it, and this is not an actor's process")
    import atexit
    import os
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    of.client.kill_actor(info["object"], True)
    os._exit(0)


def save_checkpoint(state: Any) -> None:
    """Called by an actor: keep `state` for its next life, in place of what it kept before.

    The object store keeps it as long as the actor lives, through the death of its process and, in a cluster, of the machine where it
    lives: it is copied to the machine of whoever made the actor, which takes a moment.

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
        raise RuntimeError("save_checkpoint() keeps the state of the actor whose method calls it, and this is not an actor's process")
    of.client.save_checkpoint(state)


def load_checkpoint(default: Any = None) -> Any:
    """Called by an actor, in its constructor mostly: what `save_checkpoint` kept last; `default` if it never has.

        @cm.remote(max_restarts=-1)
        class Walk:
            def __init__(self):
                self.steps = cm.load_checkpoint(default=0)

    Calls made after the last checkpoint have left no trace in it; those that were running when the process died are repeated
    if `max_task_retries` allows it.

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


# ---------------------------------------------------------------- objects
def wait(refs: list[ObjectRef], *, num_returns: int = 1, timeout: float | None = None,
         fetch_local: bool = True) -> tuple[list[ObjectRef], list[ObjectRef]]:
    """Wait until some of the refs are ready.

    Parameters
    ----------
    refs : list of ObjectRef or ObjectRefGenerator
        Without duplicates. A generator is ready when its next ref is, or when it has ended.
    num_returns : int, from 1 to len(refs)
        How many to wait for.
    timeout : float, seconds, >= 0, optional
        How long to wait; then fewer may be ready.
    fetch_local : bool
        Without effect on one machine.

    Returns
    -------
    ready, rest : list of ObjectRef
        Both in the order of `refs`; at most `num_returns` are in `ready`. A failed task counts as ready.

    Raises
    ------
    TypeError, ValueError
        `refs` is no list of distinct refs, or `num_returns` does not fit it.
    """
    if not isinstance(refs, list):
        kind = "a single ObjectRef, use wait([ref])" if type(refs) is _ref_type() else _shown(refs)
        raise TypeError(f"wait() needs a list of ObjectRefs, not {kind}")
    if not refs:
        return [], []
    whole = type(num_returns) is int or isinstance(num_returns, numbers.Integral)  # the latter alone takes half a microsecond
    if not whole or not 1 <= num_returns <= len(refs):
        raise ValueError(f"num_returns={num_returns!r} must be a whole number from 1 to the number of refs, "
                         f"{len(refs)}")
    client = current().client
    try:
        return client.wait(refs, num_returns, timeout)
    except TypeError:
        from .generator import ObjectRefGenerator
        if not any(type(ref) is ObjectRefGenerator for ref in refs):
            raise
    return _wait_with_generators(client, refs, num_returns, timeout)


def _wait_with_generators(client: Client, refs: list[Any], num_returns: int, timeout: float | None) -> tuple[Any, Any]:
    """In place of each generator stands the ref that it will hand out next, or that of its task when that was all."""
    from .generator import ObjectRefGenerator
    stands_for = {(ref.peek() or ref.completed()) if type(ref) is ObjectRefGenerator else ref: ref for ref in refs}
    if len(stands_for) < len(refs):
        raise ValueError("wait() needs distinct refs and generators, and one of them occurs more than once")
    ready, rest = client.wait(list(stands_for), num_returns, timeout)
    return [stands_for[ref] for ref in ready], [stands_for[ref] for ref in rest]


class as_completed:  # noqa: N801  (used like the function of that name in concurrent.futures)
    """Iterate over refs in the order in which they become ready, by `for` or `async for`.

    Parameters
    ----------
    refs : sequence of ObjectRef
    timeout : float, seconds, optional
        For all of them together; then GetTimeoutError is raised. Only for the plain `for`.
    """

    def __init__(self, refs: Sequence[ObjectRef], timeout: float | None = None) -> None:
        self._refs = list(dict.fromkeys(refs))
        self._timeout = timeout

    def __len__(self) -> int:
        return len(self._refs)

    def __iter__(self) -> Iterator[ObjectRef]:
        client = current().client
        end = None if self._timeout is None else time.monotonic() + self._timeout
        rest = self._refs
        while rest:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready, _ = client.wait(rest, 1, left)
            if not ready:
                from .exceptions import GetTimeoutError
                raise GetTimeoutError(f"as_completed() gave up after {self._timeout:g} s: {len(rest)} of "
                                      f"{len(self._refs)} refs are not there yet; the tasks go on")
            ready, rest = client.wait(rest, len(rest), 0)  # the others that have arrived, at one go
            yield from ready

    async def __aiter__(self) -> AsyncIterator[ObjectRef]:
        import asyncio
        loop = asyncio.get_running_loop()
        of = current()
        arrived: asyncio.Queue[ObjectRef] = asyncio.Queue()
        callbacks = {ref: (lambda ref=ref: arrived.put_nowait(ref)) for ref in self._refs}
        for ref, callback in callbacks.items():
            of.notifier.add(ref, loop, callback)
        try:
            for _ in self._refs:
                yield await arrived.get()
        finally:
            for ref, callback in callbacks.items():
                of.notifier.discard(ref, callback)


def _ref_type() -> type:
    from .refs import ObjectRef
    return ObjectRef


# ---------------------------------------------------------------- looking
def nodes() -> list[dict[str, Any]]:
    """The machines that the session's tasks can run on, this one first, with what they have. Starts no session.

    In a cluster those that are lost, too: `State` is alive, draining or dead, and `Reason` why. `Number` is the node's in the cluster.
    """
    from . import machines
    return machines.rows(sessions.running())


def cluster_resources() -> dict[str, float]:
    """What all nodes together have: amount by resource name. Starts no session."""
    from . import machines
    return machines.amounts(sessions.running(), "Resources")


def available_resources() -> dict[str, float]:
    """What of it no task or actor holds now. Starts no session."""
    from . import machines
    return machines.amounts(sessions.running(), "Available")


def get_runtime_context() -> RuntimeContext:
    """Where the caller runs: which task, actor, worker and node."""
    from .runtime_context import RuntimeContext
    return RuntimeContext(current())


def get_gpu_ids() -> list[str]:
    """The GPUs of the running task or actor, as CUDA_VISIBLE_DEVICES names them; [] outside, and without `num_gpus`."""
    from .hooks import gpu_ids
    return list(gpu_ids)


def error_info() -> list[dict[str, Any]]:
    """Tasks that failed lately, whether or not anybody fetched their values: task, name, type (failed or crashed), message as far
    as it is known here, pid, time. Starts no session."""
    from .history import read_history
    of = sessions.running()
    return [{"task": task.seq, "name": task.name, "type": task.state, "message": of.errors.of(task.seq)[0], "pid": task.pid,
             "time": task.finished_at}
            for task in read_history(of.client) if task.state in ("failed", "crashed")]


def timeline(filename: str | None = None) -> list[dict[str, Any]] | None:
    """The recent tasks as a Chrome trace (chrome://tracing, Perfetto): who ran what, when, and what depended on what.

    Parameters
    ----------
    filename : str, optional
        Where to write it; None: return the events instead. Starts no session.
    """
    from .trace import chrome_trace
    events = chrome_trace(sessions.running().client)
    if filename is None:
        return events
    import json
    with open(filename, "w", encoding="utf-8") as file:
        json.dump(events, file)
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"

