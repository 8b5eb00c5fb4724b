"""The object store on its own: Python values that several processes of a machine share, without tasks and without a
server.

    with Store.create(1 << 30) as store:
        ref = store.put(array)
        subprocess.run([sys.executable, "reader.py", store.address, ref.hex()], pass_fds=[store.fd])

    store = Store.attach(sys.argv[1])           # reader.py
    array = store.get(store.ref(sys.argv[2]))   # its own to change, and not copied

The memory belongs to the processes that are attached: it has no name, and goes with the last of them, however they end.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, SupportsIndex

from ._core import MAX_CLIENTS, MAX_SLOTS, ROLE_DRIVER, Client, Ref, StoreError, create_segment
from .serialization import pickle, unpickle

DEFAULT_BYTES, DEFAULT_MAX_OBJECTS = 1 << 30, 1 << 24
BYTES, OBJECTS = (1 << 16, 1 << 45), (1, MAX_SLOTS)  # least and most of each


FULL = "Let go of refs and values that are not needed any more, or make the store with a larger size."
# What a session's errors say otherwise, by code or, for a full table, by its name.
ERRORS = {
    "closed": "this store has been closed, or the ref belongs to another one",
    "the segment is corrupt: attach": "what is there is no store, or one of another version of cellmesh",
    "forked": "this process was forked from one that is attached to the store; it can attach by itself: "
    "Store.attach(address)",
    "objects": "the store has as many objects as it can have: let go of refs that are not needed any more, or make it "
    "with a larger max_objects",
    "clients": f"{MAX_CLIENTS} processes are attached to this store, and no more can be: close() it where it is not "
    "needed any more",
}


class _Hooks:
    """What the extension module leaves to Python."""

    pickle = staticmethod(pickle)
    unpickle = staticmethod(unpickle)

    @staticmethod
    def store_error(code: str, detail: str) -> StoreError:
        text = ERRORS.get(code, ERRORS.get(detail, detail))
        error = StoreError(f"{text} {FULL}" if code == "full" else text)
        error.code = code
        return error


def _check_whole(name: str, value: object, least: int, most: int) -> None:
    kind = ValueError if isinstance(value, SupportsIndex) else TypeError
    if not isinstance(value, SupportsIndex) or not least <= operator.index(value) <= most:
        raise kind(f"Store.create({name}={value!r}): must be a whole number, {least:,} to {most:,}")


class Store:
    """This process's attachment to a store. Made by `create` or `attach`; for any number of threads, not for children
    by fork, which attach by themselves.

    Attributes
    ----------
    fd : int
        A descriptor of the store's memory. A child process that inherits it can attach to it as long as it likes.
    """

    def __init__(self, fd: int) -> None:
        try:
            self._attached: Client | None = Client(fd, ROLE_DRIVER, _Hooks)
        except BaseException:
            os.close(fd)
            raise
        self.fd = fd

    @property
    def _client(self) -> Client:
        if self._attached is None:
            raise _Hooks.store_error("closed", "")
        return self._attached

    # ---- beginning and end
    @classmethod
    def create(cls, size: int = DEFAULT_BYTES, *, max_objects: int = DEFAULT_MAX_OBJECTS) -> Self:
        """Make a store.

        Parameters
        ----------
        size : int, bytes, 65,536 to 2**45
            For values. Memory is used as it fills.
        max_objects : int, 1 to 2,147,483,647
            How many objects it can hold at a time. A larger number costs nothing until there are so many; then each
            takes 128 bytes beside `size`, which hold values of up to 24 bytes too, and 44 bytes in each process that
            has a ref to it.

        Raises
        ------
        TypeError, ValueError
            An argument is no whole number, or is out of range.
        OSError
            The operating system refuses.
        """
        _check_whole("size", size, *BYTES)
        _check_whole("max_objects", max_objects, *OBJECTS)
        return cls(create_segment(size, n_objects=max_objects, n_tasks=64, n_actors=1, n_events=1 << 12))

    @classmethod
    def attach(cls, address: str | int) -> Self:
        """Share a store.

        Parameters
        ----------
        address : str or int
            What `address` gives in a process that is attached, or an inherited descriptor, which stays the caller's.

        Raises
        ------
        OSError
            No process has that address, or not any more; or it is another user's.
        StoreError
            `code` "corrupt": it is no store, or one of another version; "limit": 256 processes share it already.
        """
        return cls(os.dup(address) if isinstance(address, int) else os.open(address, os.O_RDWR | os.O_CLOEXEC))

    @property
    def address(self) -> str:
        """Where processes of this user find the store while this process is attached."""
        _ = self._client  # raises if it is not
        return f"/proc/{os.getpid()}/fd/{self.fd}"

    def close(self) -> None:
        """Detach. Harmless when repeated.

        Refs of this attachment are useless from now on. Arrays that were got stay valid; if there are any, what this
        process holds is given back when it ends.
        """
        client, self._attached = self._attached, None  # which goes, and the memory with it, with the last ref or array
        if client is not None:
            client.detach()
            client.close()
            os.close(self.fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # ---- objects
    def put(self, value: Any) -> Ref[Any]:
        """Store a value. It stays while any attached process has a ref to it, or another object contains one.

        Raises
        ------
        StoreError
            `code` "full": it does not fit; "limit": there are too many objects; "closed": it contains a ref of another
            store.
        TypeError
            It cannot be pickled.
        """
        try:
            return self._client.put(value)
        except StoreError as error:
            if error.code not in ("full", "limit") or not self.reap():
                raise
        return self._client.put(value)  # into what dead processes held

    def get(self, refs: Ref[Any] | list[Ref[Any]], timeout: float | None = None, *, readonly: bool = False) -> Any:
        """The value of a ref, or the values of a list of them. Arrays are the caller's own to change, on private pages
        over what was put; `readonly`: views of that, which all readers share.

        Raises
        ------
        TimeoutError
            After `timeout` seconds; only refs whose values are still being made, by tasks of a session, make it wait.
        """
        return self._client.get(refs, timeout, readonly=readonly)

    def wait(
        self, refs: Sequence[Ref[Any]], num_returns: int = 1, timeout: float | None = None
    ) -> tuple[list[Ref[Any]], list[Ref[Any]]]:
        """Wait until `num_returns` values are there, or for `timeout` seconds: those refs, and the others.

        Raises
        ------
        TypeError, ValueError
            `refs` is no sequence of distinct refs, or has less than `num_returns`.
        """
        given: Any = refs
        if not isinstance(given, Sequence):
            raise TypeError(f"wait() needs a list of refs, not {given!r}")
        return self._client.wait(list(refs), num_returns, timeout)

    def ref(self, hex_id: str) -> Ref[Any]:
        """The ref of an object by its id, which is what `hex()` of a ref gives in any process.

        Raises
        ------
        LookupError
            No process has a ref to it any more, or it is another store's.
        ValueError
            It is no such id.
        """
        found = self._client.find(hex_id)
        if found is None:
            raise LookupError(
                f"object {hex_id} is not in this store: some process must have a ref to it until another one has"
            )
        return found

    def release(self) -> None:
        """Give back now what this process has no refs to any more; otherwise small objects are given back some dozens
        at a time.
        """
        self._client.flush()

    # ---- looking
    def reap(self) -> list[int]:
        """Give back what processes held that have ended without `close`: their pids. Done by itself when the store is
        full.
        """
        return self._client.reap()

    def stats(self) -> dict[str, int]:
        """Counts and sizes: used_bytes, peak_bytes and capacity_bytes of the memory for values, n_objects and
        max_objects, shared_bytes and n_shared of what stays writable (`shared_array`), n_takeovers (processes that
        died holding the lock). What else there is concerns sessions."""
        return self._client.stats()

    def check(self) -> list[str]:
        """What is wrong with the store's tables; always empty unless something has written where it must not."""
        return self._client.check()

    def __repr__(self) -> str:
        if self._attached is None:
            return "Store(closed)"
        stats = self.stats()
        return (
            f"Store({stats['used_bytes']:,} of {stats['capacity_bytes']:,} bytes in {stats['n_objects']:,} objects at "
            f"{self.address})"
        )
