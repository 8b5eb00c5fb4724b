"""What the C core asks of Python: serialization, the user's code, exceptions, futures.

One object of class `Hooks` serves a process, driver or worker alike; the core looks each attribute up once.
"""
from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from . import exceptions, failures, session
from .text import in_resources

if TYPE_CHECKING:
    from pickle import PickleBuffer

    from .objstore._core import Ref

N_HOLDERS = 5  # named when a task waits for resources

# The notebook shows refs as cards; it puts its function here, and takes it out again.
display_ref: Callable[[Any], Any] | None = None
# Likewise for displays that are updated from threads: live_display(display_id) gives a function that shows a bundle, and
# from the second call on updates it.
live_display: Callable[[str], Callable[[dict[str, Any]], None]] | None = None


def as_option(option: str, name: str, origin: int) -> str:
    """How an option is written by whoever submitted the task called so, with that origin."""
    return f"option {option}"


def no_inputs(task: int, name: str) -> str:
    """A sentence about what a failed task was given, "" if that is not known."""
    return ""


def show_output(task: int) -> None:
    """An error is about to be shown, of the task of that number or (0) of another kind: what was printed before comes first."""
    if (of := session.current_or_none()) is not None:
        from . import driver_output
        driver_output.catch_up(of, task)


# The notebook, where tasks come from cells that have flags, and which keeps inputs for a while, puts its own here.
spell_option, inputs_in_words, before_error = as_option, no_inputs, show_output

# In a worker: the GPUs of the task or actor that it runs, as CUDA_VISIBLE_DEVICES names them.
gpu_ids: list[str] = []


def _lacks_process(ref: Ref) -> str:
    """What a task or call waits for that nobody can begin because every process there may be is taken; "" if it waits for something else."""
    from .scheduler.local_scheduler.policy import MAX_WORKERS
    client, info = ref.client, ref.client.info(ref)
    workers = [row for row in client.clients() if row["role"] == "worker"]
    if len(workers) < MAX_WORKERS or info["state"] != "ready" or client.idle_workers():
        return ""
    beginning = {row["index"] for row in client.actors() if row["state"] in ("pending", "restarting")}
    if info["actor"] >= 0 and info["actor"] not in beginning:
        return ""
    n_actors = sum(row["actor"] >= 0 for row in workers)
    others = f" {len(beginning)} actors wait to begin." if len(beginning) > 1 else ""
    return (f"{info['name']!r} waits for a process: {len(workers)} run, as many as there may be, and {n_actors} of them are actors.{others} Each has a process "
            "of its own until it ends: cellmesh.kill(actor), or let go of its handles; an actor with async methods serves many calls in one process")


class Hooks:
    """The hooks of a process."""

    # ---- values
    def pickle(self, value: object) -> tuple[bytes, list[PickleBuffer]]:
        """What the codec does not encode itself; the error names the variable and the member that cannot be pickled."""
        from .objstore import serialization
        try:
            return serialization.pickle(value)
        except exceptions.SessionError:  # it contains a ref of another session
            raise
        except Exception as reason:  # whatever the user's classes raise
            from .serializability import pickling_error
            error = pickling_error(value, reason)
        raise error  # here, where it does not take the reason along, which may have very much to say

    def unpickle(self, data: bytes, buffers: Sequence[Any]) -> Any:
        from .objstore import serialization
        try:
            return serialization.unpickle(data, buffers)
        except (SystemExit, GeneratorExit) as reason:  # of a class of the user's: no reason to end whoever wants the value
            from pickle import UnpicklingError
            raise UnpicklingError(f"a value cannot be unpickled: {type(reason).__name__}: {reason}") from reason

    # ---- code
    def load_function(self, value: tuple[str, str, Any]) -> Any:
        """The function, or the actor's class, in a function object."""
        from .objstore import serialization
        if key := serialization.environment_of(value):  # before the code, which may import what is only found then
            from . import environment
            environment.enter(key)
        return serialization.load_code_object(value)

    def load_method(self, instance: object, payload: Any) -> Callable[..., Any]:
        """The bound method that a call of an actor names."""
        from .objstore import serialization
        name = serialization.method_name(payload)
        if name in ("__terminate__", "__ray_terminate__"):
            from .api import exit_actor
            return exit_actor
        if name in ("__ready__", "__ray_ready__"):
            return lambda: True
        if name in ("__call_with__", "__ray_call__"):
            return lambda function, *args, **kwargs: function(instance, *args, **kwargs)
        return serialization.load_method(instance, payload)

    def should_retry(self, error: BaseException, function: tuple[str, str, Any]) -> bool:
        """Whether a task whose function raised is to run again, retries being left and `retry_exceptions` set."""
        from .objstore import serialization
        wanted = serialization.retried_exceptions(function)
        return isinstance(error, Exception) if wanted is None else isinstance(error, wanted)

    # ---- around tasks that have GPUs, or several CPUs
    def __init__(self) -> None:
        self._mask = os.environ.get("CUDA_VISIBLE_DEVICES")  # what the node may use
        self._actor = ""  # what the actor that this process serves calls itself
        self._sets_threads = "OMP_NUM_THREADS" not in os.environ  # else the user has

    def enter_task(self, info: dict[str, Any]) -> None:
        """Show the task its GPUs, and no others, and its CPUs to OpenMP. For an actor's constructor this is for good."""
        if self._sets_threads:
            os.environ["OMP_NUM_THREADS"] = str(max(1, int(info["num_cpus"])))
        if not info["gpu_ids"]:
            return
        devices = [device.strip() for device in self._mask.split(",")] if self._mask else []
        gpu_ids.extend(devices[i] if i < len(devices) else str(i) for i in info["gpu_ids"])
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_ids)

    def leave_task(self, info: dict[str, Any]) -> None:
        if self._sets_threads:
            os.environ["OMP_NUM_THREADS"] = "1"
        if info["gpu_ids"]:
            gpu_ids.clear()
            os.environ["CUDA_VISIBLE_DEVICES"] = ""

    # ---- errors
    def name_actor(self, label: str) -> None:
        """This process serves an actor whose class has a `__repr__`: so it is called in errors."""
        self._actor = label

    def error_value(self, error: BaseException, function_name: str, task: int) -> tuple[Any, ...]:
        """The tuple for an error of a task. `task`: its number; 0 for one that people do not see."""
        if self._actor:
            function_name = f"{self._actor}.{function_name.rpartition('.')[2]}"
        record = failures.describe(error, function_name)
        if task and (of := session.current_or_none()) is not None:
            of.task_failed(record, task)
        return record

    def make_error(self, record: tuple[Any, ...], ref: Ref) -> BaseException:
        seq = record[3] if record[0] == "system" else ref.creator
        of = session.current_or_none()
        name, origin = "", 0
        if record[0] == "system":
            from .history import submission_of
            name, origin = submission_of(ref.client, seq)
        elif of is not None:
            of.error_fetched(record, seq)
        error = exceptions.make_error(record, name, seq, lambda option: spell_option(option, name, origin))
        if record[0] == "system" and of is not None:
            of.errors.note(seq, f"{type(error).__name__}: {error}")
            if (record[1] in ("worker_crashed", "actor_died", "out_of_memory") and record[2]
                    and (lines := of.last_lines(seq))):
                title = "Memory then" if record[1] == "out_of_memory" else "The last lines that it wrote to stderr"
                error.add_note(f"{title}:\n" + "\n".join(f"    {line}" for line in lines))
        return error

    def timeout_error(self, refs: Ref | list[Ref], timeout: float) -> BaseException:
        listed = refs if isinstance(refs, list) else [refs]
        pending = [ref for ref in listed if not ref.client.ready(ref)]
        which, it = (f"{len(pending)} of {len(listed)} refs are", "the first") if len(listed) > 1 else ("the value is", "it")
        first = f" ({it} is {_what_it_waits_for(pending[0])})" if pending else ""
        return exceptions.GetTimeoutError(f"get() gave up after {timeout:g} s: {which} not there yet{first}; the tasks "
                                          "go on")

    def waits_long(self, ref: Ref) -> None:
        """The caller has been waiting for seconds: if it might for ever, say for what resources, and who has them."""
        why = ref.client.why(ref)
        of = session.current_or_none()
        if of is None or of.is_worker:
            return
        if why is None and (lacks := _lacks_process(ref)):
            of.tell("tasks_wait", lacks)
        if why is None or not why["stuck"]:
            return
        if of.in_cluster and any(amount > why["total"].get(name, 0.0) for name, amount in why["wanted"].items()):
            return  # nothing that ends on this machine would help; where it can be the head says
        what, until = repr(why["name"]), "an actor ends"
        if why["unplaced"]:
            from .placement import label_of
            what = label_of(why["unplaced"])
        if why["reserved"]:
            until = "a placement group is removed or an actor ends"
        of.tell("tasks_wait", f"{what} waits for {in_resources(why['wanted'])}, and will until {until}: {who_has(why)}")

    def store_error(self, code: str, detail: str) -> BaseException:
        from .store_errors import store_error
        return store_error(code, detail)

    # ---- futures
    def await_ref(self, ref: Ref) -> Awaitable[Any]:
        from .notifier import await_ref
        return await_ref(ref)

    def ref_future(self, ref: Ref) -> Future[Any]:
        from .notifier import future_of
        return future_of(ref)

    def make_stream(self, stream: Ref, result: Ref) -> Any:
        from .generator import ObjectRefGenerator
        return ObjectRefGenerator(stream, result)

    def iterate(self, generator: Any) -> Any:
        """What an async generator yields, for tasks, which have no event loop."""
        from .generator import iterate
        return iterate(generator)

    def ref_mimebundle(self, ref: Ref) -> Any:
        return display_ref(ref) if display_ref is not None else None


def who_has(why: Mapping[str, Any]) -> str:
    """Where the resources are that a task waits for (`why` of the client)."""
    who = ", ".join(f"{name} (pid {pid}) {in_resources(amounts)}" for name, pid, amounts in why["holders"][:N_HOLDERS])
    more = len(why["holders"]) - N_HOLDERS
    held = f"; in use by {who}{f' and {more} more' if more > 0 else ''}" if who else ""
    if why["reserved"]:
        held += f"; reserved by placement groups {in_resources(why['reserved'])}"
    return f"of {in_resources(why['total'])}, {in_resources(why['available'])} is free{held}"


def _what_it_waits_for(ref: Ref) -> str:
    info = ref.client.info(ref)
    what = f"a result of {info['name']!r}" if info["name"] else ref.hex()
    states = {"waiting": "waits for its arguments", "ready": "waits for a worker or for resources",
              "running": f"runs in pid {info['pid']}" if info["pid"] else "runs on another machine"}
    return f"{what}, which {states.get(info['state'], info['state'])}"
