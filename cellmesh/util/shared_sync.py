"""A barrier, a counter and a condition for processes that share memory (`cellmesh.shared_array`).

    from cellmesh.util.shared_sync import Barrier

    barrier, total = Barrier(2), cm.shared_array(2)

    @cm.remote
    def rank(i):
        total[i] = i + 1
        barrier.wait()  # from here on both have written
        return total.sum()

    cm.get([rank.remote(0), rank.remote(1)])  # [3.0, 3.0]

They are given to tasks and actors, in arguments or captured, as arrays are, and stay on their machine like them. None
of them hangs on a process that has died: who waits, and who comes later, gets a `MemberDiedError` with its pid, within
a second at most. A worker that waits keeps its CPU: all that are to meet must be able to run at the same time.

The protocol is in `objstore/core/objects/shared_sync.h`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from ..exceptions import BrokenSyncError, MemberDiedError
from ..objstore import _core
from ..session.current import current, process

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Barrier", "Condition", "Counter"]

ALL = (1 << 32) - 1  # to be notified: as many as there are


class _Shared:
    """What the three have in common: a ref to the object in shared memory, by which they are pickled."""

    __slots__ = ("_ref",)
    _ref: _core.Ref[Any]

    def _make(self, kind: int, n: int, text: str) -> None:
        self._ref = (process.session or current()).client.shared_sync(kind, n, text)

    def __reduce__(self) -> tuple[Any, ...]:
        return _over, (type(self), self._ref)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._ref.hex() == self._ref.hex()

    def __hash__(self) -> int:
        return hash(self._ref.hex())

    def _check(self, result: int) -> None:
        """Raise what a result means that is neither SYNC_DONE nor SYNC_PENDING."""
        name = type(self).__name__.lower()
        if result in (_core.SYNC_BROKEN, _core.SYNC_RESET):
            broken, by = _core.sync_broken(self._ref)
            if result == _core.SYNC_RESET or not broken:
                raise BrokenSyncError(f"the {name} was reset while this process waited for it")
            if by < 0:
                raise BrokenSyncError(f"process {-by} has aborted the {name}: reset() makes it as new")
            raise _died(name, by)
        if result == _core.SYNC_OWNED:
            raise RuntimeError(f"this thread has locked the {name} already, and cannot a second time")
        if result == _core.SYNC_NOT_OWNED:
            raise RuntimeError(f"this thread has not locked the {name}: `with {name}: ...` does")


def _died(name: str, pid: int) -> MemberDiedError:
    """The error of who needs a member that has died. Not made where it is raised: a variable there would be a cycle,
    and keep the arrays of the callers."""
    what = "joined it" if name == "barrier" else "had it locked"
    error = MemberDiedError(
        f"{f'process {pid}' if pid else 'a process'} {what} and has died: the {name} is of no use until reset(), which "
        "is for who knows that the others have been started again, and has set right what the dead one may have left "
        "half done"
    )
    error.pid = pid
    return error


def _over(cls: type[_Shared], ref: _core.Ref[Any]) -> _Shared:
    """The primitive that lies there."""
    self = object.__new__(cls)
    self._ref = ref
    return self


class Barrier(_Shared):
    """Where so many processes, or threads of them, wait until all have come; again and again.

    A process joins the barrier with its first `wait` or `arrive`. If it dies from then on, whether it waits just then
    or not, the barrier is broken for all. A worker that ends in good order between two tasks is a member no more, and
    breaks nothing.

    Parameters
    ----------
    n : int, 1 to 65,535
        How many.

    Raises
    ------
    TypeError, ValueError
        `n` is no whole number, or out of range.
    ObjectStoreFullError
        The object store has no room.
    """

    __slots__ = ()

    def __init__(self, n: int) -> None:
        try:
            n = operator.index(n)
        except TypeError:
            raise TypeError(f"Barrier({n!r}): needs a whole number of members") from None
        if not 1 <= n <= _core.SYNC_MOST_MEMBERS:
            raise ValueError(f"Barrier({n}): there can be 1 to {_core.SYNC_MOST_MEMBERS:,} members")
        self._make(_core.SYNC_BARRIER, n, f"Barrier({n})")

    def wait(self, timeout: float | None = None) -> None:
        """Come, and wait until all have.

        Parameters
        ----------
        timeout : float, seconds, >= 0, optional
            When it is up, this one has not come, and may come again; the others go on waiting.

        Raises
        ------
        TimeoutError
            The time is up.
        MemberDiedError
            A process that had joined died, now or before.
        BrokenSyncError
            `abort` was called, or `reset` while this one waited.
        """
        result = _core.barrier_wait(self._ref, timeout)
        if result == _core.SYNC_PENDING:
            raise TimeoutError(f"{self!r}: not all have come within {timeout:g} s")
        if result != _core.SYNC_DONE:
            self._check(result)

    def arrive(self) -> None:
        """Come, and do not wait: for who has something to tell by it, and nothing to hear. If it is the last one the
        others go on; else they wait for those who are still to come.

        Raises
        ------
        MemberDiedError, BrokenSyncError
            As of `wait`.
        """
        result = _core.barrier_arrive(self._ref)
        if result == _core.SYNC_BROKEN:
            self._check(result)

    @property
    def n_waiting(self) -> int:
        """How many have come, and wait for the others or have gone on to something else."""
        return _core.barrier_arrived(self._ref)

    @property
    def broken(self) -> bool:
        """Whether a member has died, or `abort` was called."""
        return _core.sync_broken(self._ref)[0]

    def abort(self) -> None:
        """Break it: who waits, and who comes, gets a BrokenSyncError; for a member that cannot come any more."""
        _core.sync_abort(self._ref)

    def reset(self) -> None:
        """Make it as new, without members. Who waits gets a BrokenSyncError."""
        _core.sync_reset(self._ref)

    def __repr__(self) -> str:
        return f"<Barrier, {self.n_waiting} waiting{', broken' if self.broken else ''}>"


class Counter(_Shared):
    """A whole number of 64 bits, which any process reads and changes in one step.

    Parameters
    ----------
    value : int, -2**63 to 2**63 - 1

    Raises
    ------
    TypeError, OverflowError
        `value` is no whole number, or does not fit; of all methods that take one.
    ObjectStoreFullError
        The object store has no room.
    """

    __slots__ = ()

    def __init__(self, value: int = 0) -> None:
        self._make(_core.SYNC_COUNTER, 0, "Counter")
        if value:
            self.set(value)

    def add(self, n: int = 1) -> int:
        """Add a number; the value from then on, which no other call has returned in between."""
        return _core.counter_add(self._ref, n)

    def get(self) -> int:
        """The value."""
        return _core.counter_get(self._ref)

    def set(self, value: int) -> int:
        """Set the value; returns what it was."""
        return _core.counter_set(self._ref, value)

    def __repr__(self) -> str:
        return f"<Counter, {self.get()}>"


class Condition(_Shared):
    """A lock, and waiting for what others do under it; as `threading.Condition`, between processes.

        with condition:
            while not done.any():
                condition.wait()

    It is locked by a thread, once. If a process dies that has it locked, it is broken: what it protects may be half
    done, so all others get a `MemberDiedError` until somebody has set it right and calls `reset`.

    Raises
    ------
    ObjectStoreFullError
        The object store has no room.
    """

    __slots__ = ()

    def __init__(self) -> None:
        self._make(_core.SYNC_CONDITION, 0, "Condition")

    def acquire(self, timeout: float | None = None) -> bool:
        """Lock it; False when the time, in seconds, is up.

        Raises
        ------
        MemberDiedError
            Its owner died.
        RuntimeError
            This thread has locked it already.
        """
        result = _core.condition_lock(self._ref, timeout)
        if result > _core.SYNC_PENDING:
            self._check(result)
        return result == _core.SYNC_DONE

    def release(self) -> None:
        """Unlock it.

        Raises
        ------
        RuntimeError
            This thread has not locked it.
        """
        result = _core.condition_unlock(self._ref)
        if result not in (_core.SYNC_DONE, _core.SYNC_BROKEN):  # a broken one is nobody's
            self._check(result)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Unlock it, wait to be notified, lock it again. As with other conditions, what is waited for is looked at
        again afterwards.

        Returns
        -------
        bool
            False: it was not notified within `timeout` seconds.

        Raises
        ------
        MemberDiedError
            A process died that had it locked.
        RuntimeError
            This thread has not locked it.
        """
        result = _core.condition_wait(self._ref, timeout)
        if result > _core.SYNC_PENDING:
            self._check(result)
        return result == _core.SYNC_DONE

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until `predicate()` is true, or for so many seconds in all; returns what it returned last."""
        from time import monotonic

        end = None if timeout is None else monotonic() + timeout
        while not (found := predicate()):
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return found

    def notify(self, n: int = 1) -> None:
        """Have up to `n` of those who wait go on.

        Raises
        ------
        MemberDiedError
            A process died that had it locked.
        RuntimeError
            This thread has not locked it.
        ValueError
            `n` is below 0.
        """
        if n < 0:
            raise ValueError(f"notify({n}): at least 0 of those who wait can be notified")
        result = _core.condition_notify(self._ref, min(n, ALL))
        if result:
            self._check(result)

    def notify_all(self) -> None:
        """Have all who wait go on."""
        self.notify(ALL)

    def reset(self) -> None:
        """Make it as new, after its owner has died. One that works, and that somebody has locked, stays as it is."""
        _core.sync_reset(self._ref)

    @property
    def broken(self) -> bool:
        """Whether its owner has died."""
        return _core.sync_broken(self._ref)[0]

    def __repr__(self) -> str:
        return f"<Condition{', broken' if self.broken else ''}>"
