import pickle
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeAlias, TypeVar

from _typeshed import SupportsWrite

_BufferCallback: TypeAlias = Callable[[pickle.PickleBuffer], Any] | None
_Class = TypeVar("_Class", bound=type)

class Pickler(pickle.Pickler):
    dispatch_table: Any  # of the class a ChainMap, of an instance whatever it was given
    def __init__(
        self, file: SupportsWrite[bytes], protocol: int | None = None, buffer_callback: _BufferCallback = None
    ) -> None: ...
    def reducer_override(self, obj: Any) -> Any: ...

def _extract_code_globals(co: CodeType) -> dict[str, None]: ...
def _get_or_create_tracker_id(class_def: type) -> str: ...
def _lookup_class_or_track(class_tracker_id: str, class_def: _Class) -> _Class: ...
def _should_pickle_by_reference(obj: Any, name: str | None = None) -> bool: ...
