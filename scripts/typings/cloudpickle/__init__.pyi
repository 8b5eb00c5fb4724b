"""What cellmesh uses of cloudpickle 3."""

from pickle import load as load
from pickle import loads as loads
from types import ModuleType
from typing import Any

from _typeshed import SupportsWrite

from .cloudpickle import Pickler as Pickler
from .cloudpickle import _BufferCallback

__version__: str
CloudPickler = Pickler

def dump(
    obj: Any, file: SupportsWrite[bytes], protocol: int | None = None, buffer_callback: _BufferCallback = None
) -> None: ...
def dumps(obj: Any, protocol: int | None = None, buffer_callback: _BufferCallback = None) -> bytes: ...
def register_pickle_by_value(module: ModuleType) -> None: ...
def unregister_pickle_by_value(module: ModuleType) -> None: ...
