"""`task_group()`: tasks that end together. Leaving the block waits for all of them, and the first that fails ends the
others.
"""

from __future__ import annotations

import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ..exceptions import SessionError, TaskCancelledError
from ..refs import ObjectRef
from ..session.current import current
from ..session.futures import without_frames
from ..session.notifier import until_ready
from ..submit.cancel import cancel_task
from ..submit.generator import ObjectRefGenerator

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ..objstore._core import Ref
    from ..type_variables import Submits

T = TypeVar("T")


def task_group() -> TaskGroup:
    """Tasks that end together, as with `asyncio.TaskGroup`: none of them outlives the block.

        with cm.task_group() as g:
            left = g.submit(f, 1)
            right = g.submit(f.options(num_cpus=2), 2)
        print(cm.get([left, right]))        # both have ended

    `async with cm.task_group() as g` does the same in an event loop.

    Leaving the block waits for all tasks. When one fails, those that have not ended are cancelled at once, and the
    block raises an ExceptionGroup with the errors of all that failed, and with what the block itself has raised. Tasks
    that somebody cancels are no failures. An exception that leaves the block, Ctrl-C too, cancels the tasks.
    """
    return TaskGroup()


class TaskGroup:
    """What `task_group` returns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By their numbers those not known to have ended, each with what has the notifier forget it.
        self._running: dict[int, tuple[Ref, Callable[[], object]]] = {}
        self._errors: list[Exception] = []
        self._n_tasks = 0
        self._state = "new"  # then "open", perhaps "failing", and "closed"
        self._in_loop: asyncio.TaskGroup | None = None  # of `async with`: a coroutine follows each task

    def submit(self, function: Submits[Any, T], /, *args: Any, **kwargs: Any) -> T:
        """`function.remote(*args, **kwargs)`, as a task of the group.

        Parameters
        ----------
        function : RemoteFunction, actor's method
            `f`, `f.options(...)`, `actor.method`.

        Returns
        -------
        ObjectRef
            Or what else `.remote` returns.

        Raises
        ------
        TaskCancelledError
            A task of the group has failed; this ends the block, too.
        RuntimeError
            The block has not begun, or has ended.
        """
        if not hasattr(function, "remote"):
            remedy = (
                "f in place of f.remote; cellmesh.remote(f) makes a remote function of a plain one"
                if callable(function)
                else "add(f.remote(x)) takes what a call has returned"
            )
            raise TypeError(f"submit(f, x) needs a remote function or an actor's method, not {function!r}: {remedy}")
        self._check_open()
        if self._state == "failing":
            raise TaskCancelledError("a task of the group has failed, so it takes no more")
        return self.add(function.remote(*args, **kwargs))

    def add(self, result: T) -> T:
        """Have what `.remote` has returned belong to the group: an ObjectRef, a list of them or a generator; returns
        it.

        If a task of the group has failed it is cancelled.
        """
        parts: list[object] = list(result) if isinstance(result, list) else [result]
        ends = [part.completed() if isinstance(part, ObjectRefGenerator) else part for part in parts]
        refs = [end for end in ends if isinstance(end, ObjectRef) and not end.client.info(end)["put"]]
        if not refs or len(refs) < len(parts):
            raise TypeError(
                f"a group takes what .remote() returns (an ObjectRef, a list of them, a generator), not {result!r}"
            )
        self._check_open()
        for ref in {ref.creator: ref for ref in refs}.values():  # one of each task
            self._follow(ref)
        return result

    def cancel(self) -> None:
        """Cancel the tasks that the group has now. That does not count as failure."""
        with self._lock:
            running = list(self._running.values())
        try:
            for ref, _ in reversed(running):  # the last first: so none begins instead
                cancel_task(ref)
        except SessionError:  # it has ended, and with it all tasks
            return

    def __repr__(self) -> str:
        return f"<task group, {self._state}: {len(self._running)} of {self._n_tasks} tasks have not ended>"

    # ---- the block
    def __enter__(self) -> TaskGroup:
        self._open()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        try:
            if error is not None:
                self.cancel()
            try:
                self._wait()
            except BaseException:  # Ctrl-C; if it comes again, that is the end of waiting
                self.cancel()
                self._wait()
                raise
            if error is None or isinstance(error, Exception):
                self._raise(error)
        finally:
            self._state = "closed"
            self._errors.clear()
            del error  # a frame that its traceback will have

    async def __aenter__(self) -> TaskGroup:
        import asyncio

        self._open()
        self._in_loop = await asyncio.TaskGroup().__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        assert self._in_loop is not None
        try:
            await self._in_loop.__aexit__(kind, error, traceback)
        except BaseExceptionGroup as failed:  # asyncio's frame holds what it raises
            raise failed.with_traceback(None) from None
        finally:
            self._state = "closed"
            self._in_loop = None
            del error

    def _open(self) -> None:
        if self._state != "new":
            raise RuntimeError("this group has had its block, and each needs its own: with cellmesh.task_group() as g")
        self._state = "open"

    def _check_open(self) -> None:
        if self._state in ("new", "closed"):
            begun = "ended" if self._state == "closed" else "not begun"
            raise RuntimeError(f"the group's block has {begun}: with cellmesh.task_group() as g: g.submit(f, ...)")

    # ---- its tasks
    def _follow(self, ref: Ref) -> None:
        notifier, ended = current().notifier, partial(self._take, ref.creator)  # which does not keep the value
        with self._lock:
            if ref.creator in self._running:
                return
            self._n_tasks += 1
            if self._state != "failing" or self._in_loop is None:
                self._running[ref.creator] = ref, partial(notifier.discard, ref, ended)
        if self._state == "failing":
            cancel_task(ref)
        elif self._in_loop is not None:
            self._in_loop.create_task(self._awaited(ref))
        else:
            notifier.add(ref, None, ended)

    async def _awaited(self, ref: Ref) -> None:
        """For asyncio's group, which says when it is cancelled."""
        import asyncio

        try:
            await until_ready(ref)
        except asyncio.CancelledError:
            cancel_task(ref)
            await until_ready(ref)
            raise
        finally:
            self._running.pop(ref.creator, None)
        error = _error_of(ref)
        if error is not None:
            self._state = "failing"
            try:
                raise error
            finally:
                del error

    def _take(self, task: int) -> None:
        """A task has ended: said by the notifier's thread, or found by a thread that waits."""
        ref, forget = self._running.get(task, (None, None))
        error = _error_of(ref) if ref is not None else None
        with self._lock:
            if self._running.pop(task, None) is None:  # another thread was first
                return
            if error is not None:
                self._errors.append(error)
                self._state = "failing"
        assert forget is not None
        forget()  # else it would keep the value until its thread is there
        if error is not None:
            self.cancel()

    def _wait(self) -> None:
        """Until all tasks have ended."""
        while refs := [ref for ref, _ in list(self._running.values())]:
            client = refs[0].client
            if client.closed:
                return
            client.wait(refs, 1, None)
            for ref in client.wait(refs, len(refs), 0)[0]:
                self._take(ref.creator)

    def _raise(self, error: Exception | None) -> None:
        """Raise what has failed, if anything has; `error`: what the block has raised."""
        errors = list(self._errors)
        if error is not None and not (errors and isinstance(error, TaskCancelledError)):  # else it came of what failed
            errors = [error, *(one for one in errors if not _are_same(one, error))]
        if errors:
            try:
                failed = f"{len(self._errors)} of {self._n_tasks} tasks of the group failed"
                raise ExceptionGroup(
                    failed if len(errors) == len(self._errors) else f"the block of the group raised; {failed}", errors
                ) from None
            finally:
                del errors, error


def _error_of(ref: Ref) -> Exception | None:
    """Why a task that has ended has failed; None: it has not, or was cancelled, or is of a session that has ended."""
    handled = sys.exception()  # that of the block, perhaps
    try:
        if ref.client.info(ref)["state"] != "finished":
            ref.client.get(ref, 0)
    except (TaskCancelledError, SessionError):
        return None
    except Exception as error:  # whatever the task has raised
        if error.__context__ is handled:
            error.__context__ = None
        return without_frames(error)
    return None


def _are_same(one: Exception, other: Exception) -> bool:
    """Whether both tell of one failure: the block has asked for the value of the task."""
    return type(one).__name__ == type(other).__name__ and str(one) == str(other)
