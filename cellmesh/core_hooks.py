"""What the C core asks of Python: serialization, the user's code, exceptions, futures.

One object of class `Hooks` serves a process, driver or worker alike; the core looks each attribute up once.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from . import exceptions, front_end
from .environment import gpus
from .errors import describe
from .errors.escapes import ends_process
from .objstore._core import Failure
from .scheduler.worker import warm
from .session.current import current, current_or_none
from .text import warn_user
from .tracebacks import from_users_frame

N_HOLDERS_NAMED = 5  # of a full store
ARGUMENTS_BYTES = 65536  # of more each travels as an object of its own, as the core has it (IMPLICIT_PUT)

if TYPE_CHECKING:
    from pickle import PickleBuffer

    from .objstore._core import Ref


class Hooks:
    """The hooks of a process."""

    # ---- values
    def pickle(self, value: object, limit: int | None = None) -> tuple[bytes, list[PickleBuffer | memoryview]] | None:
        """What the codec does not encode itself, None if it goes beyond the limit; the error names the variable and the
        member that cannot be pickled.
        """
        from .objstore import serialization

        try:
            return serialization.pickle(value, limit)
        except exceptions.SessionError:  # it contains a ref of another session
            raise
        except serialization.TooLarge:
            return None
        except BaseException as reason:  # whatever the user's classes raise
            if ends_process(reason):
                raise
            from .errors.serializability import pickling_error

            error = pickling_error(value, reason)
        try:
            raise error  # here, where it does not take the reason along, which may have very much to say
        finally:
            del error  # a frame that holds what it raises is a reference cycle

    def pickle_arguments(self, values: tuple[Any, ...]) -> tuple[bytes, list[PickleBuffer | memoryview]] | None:
        """Arguments together, as they may share what they hold; None: they are too large for that, and each becomes an
        object of its own.
        """
        return self.pickle(values, ARGUMENTS_BYTES)

    def unpickle(self, data: bytes, buffers: Sequence[Any]) -> Any:
        from .objstore import serialization

        try:
            return serialization.unpickle(data, buffers)
        except Exception:
            raise
        except BaseException as reason:  # of a class of the user: no reason to end the process that wants the value
            if ends_process(reason):
                raise
            from pickle import UnpicklingError

            reason.__traceback__ = from_users_frame(reason.__traceback__)
            said = describe.text_of(reason)
            raise UnpicklingError(f"a value cannot be unpickled: {type(reason).__name__}: {said}") from reason

    def unpickle_arguments(self, data: Any, buffers: Sequence[Any]) -> Any:
        """The arguments of a task that are pickled together."""
        begun = time.monotonic()
        try:
            return self.unpickle(data, buffers)
        except Exception:  # of the user's classes
            from .errors import failed_argument

            if time.monotonic() - begun < failed_argument.AGAIN_S:
                self._failed_arguments[threading.get_ident()] = failed_argument.find(data, buffers)
            raise

    def argument_failed(self, error: Exception, code: Any, task: str, layout: Any, dependency: int, first: Any) -> None:
        """An argument of a task could not be unpickled: the error says which, and shows none of our frames that lead
        there.
        """
        failed = self._failed_arguments.pop(threading.get_ident(), None)
        if isinstance(error, exceptions.CellmeshError):
            return  # it is the store's
        from .errors.failed_argument import in_words, remedy

        error.add_note(in_words(code, task, layout, dependency, failed, first) + remedy(error))
        error.__traceback__ = from_users_frame(error.__traceback__)

    def value_failed(self, error: Exception, ref: Ref) -> None:
        """A task's value could not be unpickled: the error says of which task it is."""
        if isinstance(error, exceptions.CellmeshError):
            return  # it is the store's
        from .observe.history import submission_of

        if name := submission_of(ref.client, ref.creator)[0]:
            error.add_note(f"The value of the task {name!r} could not be unpickled.")

    def arguments_failed(
        self, error: TypeError, task: str, about: Any, values: tuple[Any, ...], n_positional: int, keywords: Any
    ) -> None:
        """An argument of a call could not be pickled: the error says which it is, and of which task."""
        from .errors.failed_argument import before_it_is_sent

        try:
            signature = about("__signature__") if about is not None else None
        except (AttributeError, TypeError, ValueError):  # of a builtin
            signature = None
        within = vars(error).pop("within", ())
        error.add_note(before_it_is_sent(task, signature, within, values, n_positional, keywords or ()))

    # ---- code
    def load_function(self, value: tuple[str, str, Any]) -> Any:
        """The function, or the actor's class, in a function object."""
        from .objstore import serialization

        if key := serialization.environment_of(value):  # before the code, which may import what is only found then
            from .environment import runtime_env

            runtime_env.enter(key, current)
        try:
            code = self._loaded(value)
        except ImportError as error:
            error.add_note(
                f"{value[1]!r} failed to import in the worker: what it needs must be installed there, or be found "
                "through sys.path; runtime_env=dict(py_modules=..., pip=...) takes it along"
            )
            raise
        if (states := serialization.class_states_of(value)) and (of := current_or_none()) is not None:
            from .submit.class_states import loaded

            for stale in loaded.note(code, states):
                of.client.forget_function(stale)
        if serialization.keeps_frames(value):
            from .environment.driver_env import keeping_frames

            return keeping_frames(code)
        return code

    def _loaded(self, value: tuple[str, str, Any]) -> Any:
        from .objstore import serialization

        kinship = serialization.kinship_of(value)
        if not kinship:
            return serialization.load_code_object(value)
        from .submit.export import digest_of, recursive

        known = kinship, digest_of(value)
        code = recursive.get(known)
        if code is None:
            code = recursive[known] = serialization.load_code_object(value)
        return code

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
            return lambda function, /, *args, **kwargs: function(instance, *args, **kwargs)
        return serialization.load_method(instance, payload)

    def should_retry(self, error: BaseException, function: tuple[str, str, Any]) -> bool:
        """Whether a task whose function raised is to run again, retries being left and `retry_exceptions` set."""
        from .objstore import serialization

        wanted = serialization.retried_exceptions(function)
        if wanted is None:
            return isinstance(error, Exception)
        return isinstance(error, wanted) or (
            isinstance(error, exceptions.TaskError) and isinstance(error.cause, wanted)
        )

    def exited(self, error: SystemExit, name: str, of_actor: bool, attempt: int, most: int) -> int:
        """A task or a method has called `sys.exit`, see `process_exit`; of an actor this does not return."""
        from .errors import process_exit

        if of_actor:
            process_exit.leave_actor(current().client, process_exit.status_of(error))
        return process_exit.leave_task(error, name, attempt, most)

    def timed_out(self, error: BaseException, function_name: str, limit_s: float, ran_s: float) -> BaseException:
        """The error of a task that ended with this one when it was interrupted, as its time was up."""
        from .errors.rebuild import task_timeout

        timeout = task_timeout(self._with_actor(function_name), limit_s, ran_s)
        timeout.__traceback__ = error.__traceback__
        return timeout

    # ---- around tasks that have GPUs, or several CPUs
    def __init__(self) -> None:
        self._mask = os.environ.get("CUDA_VISIBLE_DEVICES")  # what the node may use
        self._has_warned = False  # that all calls of an async actor wait
        self._failed_arguments: dict[int, Any] = {}  # by thread
        self._actor = ""  # what the actor that this process serves calls itself
        self._sets_threads = "OMP_NUM_THREADS" not in os.environ  # else the user has

    def enter_task(self, info: dict[str, Any]) -> None:
        """Show the task its GPUs, and no others, and its CPUs to OpenMP. For an actor's constructor this is for
        good.
        """
        if self._sets_threads:
            n_threads = max(1, int(info["num_cpus"]))
            os.environ["OMP_NUM_THREADS"] = str(n_threads)
            warm.set_threads(n_threads)
        if not info["gpu_ids"]:
            return
        devices = [device.strip() for device in self._mask.split(",")] if self._mask else []
        gpus.ids.extend(devices[i] if i < len(devices) else str(i) for i in info["gpu_ids"])
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus.ids)

    def leave_task(self, info: dict[str, Any]) -> None:
        if self._sets_threads:
            os.environ["OMP_NUM_THREADS"] = "1"
            warm.set_threads(1)
        if info["gpu_ids"]:
            gpus.ids.clear()
            os.environ["CUDA_VISIBLE_DEVICES"] = ""

    # ---- errors
    def name_actor(self, label: str) -> None:
        """This process serves an actor whose class has a `__repr__`: so it is called in errors."""
        self._actor = label

    def _with_actor(self, function_name: str) -> str:
        return f"{self._actor}.{function_name.rpartition('.')[2]}" if self._actor else function_name

    def error_value(self, error: BaseException, function_name: str, task: int) -> tuple[Any, ...]:
        """The tuple for an error of a task. `task`: its number; 0 for one that people do not see."""
        record = describe.describe(error, self._with_actor(function_name))
        if task and (of := current_or_none()) is not None:
            of.task_failed(record, task)
        return record

    def make_error(self, record: tuple[Any, ...], ref: Ref) -> BaseException:
        from .errors.rebuild import make_error

        failure = record if isinstance(record, Failure) else None
        seq = failure.task if failure is not None else ref.creator
        of = current_or_none()
        name, origin = "", 0
        if failure is not None:
            from .observe.history import submission_of

            name, origin = submission_of(ref.client, seq)
        elif of is not None and record[0] != "shared":  # which no task of this session has raised
            of.error_fetched(record, seq)
        error = make_error(record, name, seq, lambda option: front_end.current.spell_option(option, name, origin))
        if failure is not None and of is not None:
            of.errors.note(seq, f"{type(error).__name__}: {error}")
            if (
                failure.code in ("worker_crashed", "actor_died", "out_of_memory")
                and failure.detail
                and (lines := of.last_lines(seq))
            ):
                title = "Memory then" if failure.code == "out_of_memory" else "The last lines that it printed"
                error.add_note(f"{title}:\n" + "\n".join(f"    {line}" for line in lines))
        return error

    def timeout_error(self, refs: Ref | list[Ref], timeout: float) -> BaseException:
        from .session.waiting_for import what_it_waits_for

        listed = refs if isinstance(refs, list) else [refs]
        pending = [ref for ref in listed if not ref.client.ready(ref)]
        which, it = (
            (f"{len(pending)} of {len(listed)} refs are", "the first") if len(listed) > 1 else ("the value is", "it")
        )
        first = f" ({it} is {what_it_waits_for(pending[0])})" if pending else ""
        return exceptions.GetTimeoutError(
            f"get() gave up after {timeout:g} s: {which} not there yet{first}; the tasks go on"
        )

    def waits_long(self, ref: Ref) -> None:
        """The caller has been waiting for seconds: if it might for ever, say for what resources, and who has them."""
        from .session.waiting_for import tell_why

        tell_why(ref)

    def blocks_loop(self, ref: Ref) -> None:
        """An async actor's call waits for a ref by `get` or `wait`; with it all others do, unless it is in a thread."""
        import asyncio

        if not self._has_warned and asyncio._get_running_loop() is not None:
            self._has_warned = True
            warn_user(
                "this waits by get() or wait(), and so do all other calls of the async actor meanwhile: write "
                "`await ref` in an async method, or `await asyncio.gather(*refs)` for several",
                RuntimeWarning,
            )

    def store_error(self, code: str, detail: str) -> BaseException:
        from .errors.store import store_error

        return store_error(code, detail, _memory)

    # ---- large arguments
    def argument_candidate(self, value: Any, size: int) -> Ref | tuple[int, int] | None:
        """The object that a large argument may have become in an earlier call; what it holds is compared."""
        of = current_or_none()
        return of.sent.candidate(value, size) if of is not None else None

    def argument_sent(self, value: Any, size: int, ref: Ref, compared: bool, same: bool) -> None:
        """A large argument has become this object, or was `same` as it."""
        of = current_or_none()
        if of is not None and of.client is ref.client:
            of.sent.sent(value, size, ref, compared, same)

    def let_go_arguments(self) -> None:
        """The store has no room."""
        of = current_or_none()
        if of is not None:
            of.sent.let_go()

    # ---- futures
    def await_ref(self, ref: Ref) -> Awaitable[Any]:
        from .session.notifier import await_ref

        return await_ref(ref)

    def ref_future(self, ref: Ref) -> Future[Any]:
        from .session.notifier import future_of

        return future_of(ref)

    def cancel_ref(self, ref: Ref) -> bool:
        from .submit.cancel import cancel_task

        return cancel_task(ref)

    def add_done_callback(self, ref: Ref, function: Callable[[Any], object]) -> None:
        from .session.done_callbacks import add

        add(ref, function)

    def remove_done_callback(self, ref: Ref, function: Callable[[Any], object]) -> int:
        from .session.done_callbacks import remove

        return remove(ref, function)

    def reduce_ref(self, ref: Ref) -> tuple[Any, ...]:
        from .pickled_refs import reduced

        return reduced(ref)

    def make_stream(self, stream: Ref, result: Ref) -> Any:
        from .submit.generator import ObjectRefGenerator

        return ObjectRefGenerator(stream, result)

    def iterate(self, generator: Any) -> Any:
        """What an async generator yields, for tasks, which have no event loop."""
        from .submit.generator import iterate

        return iterate(generator)

    def ref_mimebundle(self, ref: Ref) -> Any:
        return front_end.current.display_ref(ref)


def _memory() -> str:
    """What fills the store, for the error of a full one."""
    from .state import memory

    return memory(N_HOLDERS_NAMED, "memory", asks=False)
