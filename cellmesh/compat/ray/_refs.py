"""`ray.ObjectRef`: cellmesh's refs, with the methods that Ray's have in addition."""

from __future__ import annotations

import asyncio
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from ...ids import JobID, TaskID
from ...objstore._core import PUT_BIT, Ref, set_ref_methods
from ...session.current import current
from ._ids import ID_BYTES, task_id_of


class _Kind(type):
    """Every ref is an instance of the class below, which is called with an id."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Ref)

    def __subclasscheck__(cls, other: type) -> bool:
        return other in (cls, Ref)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is Ref

    def __hash__(cls) -> int:
        return hash(Ref)

    def __getattr__(cls, name: str) -> Any:
        return getattr(Ref, name)

    def __call__(cls, id: bytes) -> Any:  # Ray's name
        refs: Any = cls  # the class below
        return refs.from_binary(id)


_Base = Ref[Any] if TYPE_CHECKING else object  # its methods become those of every ref


class ObjectRef(_Base, metaclass=_Kind):
    """The handle of a value; `ObjectRef(ref.binary())` is that ref again, as long as its object lives in this
    session.
    """

    @classmethod
    def __class_getitem__(cls, item: object) -> GenericAlias:
        return GenericAlias(Ref, item)

    @classmethod
    def from_binary(cls, id_bytes: bytes) -> Ref[Any]:
        """The ref of an object that lives in this session.

        Raises
        ------
        TypeError, ValueError
            It is no id of a ref, or its object is gone.
        """
        if not isinstance(id_bytes, bytes):
            raise TypeError(f"ObjectRef(id) needs the bytes that ref.binary() gives, not {id_bytes!r}")
        if len(id_bytes) != ID_BYTES:
            raise ValueError(
                f"ObjectRef(id): the id needs to have length {ID_BYTES}, as what ref.binary() gives, not "
                f"{len(id_bytes)}"
            )
        found = current().client.find_ref(int.from_bytes(id_bytes[8:12]), int.from_bytes(id_bytes[12:]))
        if found is None or bytes.fromhex(found.hex()) != id_bytes:  # that of another session
            raise ValueError(
                f"ObjectRef({id_bytes.hex()}): this session has no such object: it was freed when its last ref went, "
                "or is of another session"
            )
        return found

    @classmethod
    def from_hex(cls, hex_id: str) -> Ref[Any]:
        """As `from_binary`, of what `hex()` gives."""
        return cls.from_binary(bytes.fromhex(hex_id))

    def binary(self) -> bytes:
        """The id as bytes."""
        return bytes.fromhex(self.hex())

    def size(self) -> int:
        """The length of an id in bytes."""
        return ID_BYTES

    def is_nil(self) -> bool:
        """False: a ref stands for something."""
        return False

    def task_id(self) -> TaskID:
        """The id of the task that makes the value; nil if it was put."""
        return TaskID.nil() if self.creator & PUT_BIT else TaskID(task_id_of(self.creator))

    def job_id(self) -> JobID:
        """The id of the session."""
        return JobID(current().node.session_id)

    def call_site(self) -> str:
        """Where the ref was made, which is not recorded: "", as of Ray without RAY_record_ref_creation_sites."""
        return ""

    def as_future(self, _internal: bool = False) -> asyncio.Future[Any]:
        """A future of the event loop that receives the value or the exception."""
        return asyncio.wrap_future(self.future())


set_ref_methods(
    {
        name: vars(ObjectRef)[name]
        for name in ("as_future", "binary", "call_site", "is_nil", "job_id", "size", "task_id")
    }
)
