"""`%fetch`: variables that hold futures get their values."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .capture import Shipper
from .cells import CellError


def fetch(names: list[str], namespace: dict[str, Any], timeout: float | None, shipper: Shipper) -> None:
    """Wait for futures and bind their values; variables that hold none are left alone.

    Parameters
    ----------
    names : list of str
        Each holds a future, or a list, tuple or dict with futures.
    namespace : dict
        The notebook's.
    timeout : float, seconds, >= 0, optional
        For all together.
    shipper : Shipper
        Is told which values lie in the store already.

    Raises
    ------
    CellError
        No names, or one that does not exist.
    CellmeshError
        A task has failed; then no variable is changed.
    """
    if not names:
        raise CellError("%fetch needs the names of variables that hold futures: %fetch a b")
    for name in names:
        if name not in namespace:
            raise CellError(f"%fetch: there is no variable {name!r}")
    holders = {name: namespace[name] for name in names}
    refs = list(dict.fromkeys(ref for holder in holders.values() for ref in _futures_in(holder)))
    if not refs:
        return
    from ..objects import get
    values = dict(zip(refs, get(refs, timeout), strict=True))
    for name, holder in holders.items():
        namespace[name] = _with_values(holder, values)
        if holder in refs:
            shipper.remember(name, namespace[name], holder)


def _futures_in(holder: Any) -> Iterator[Any]:
    from ..refs import ObjectRef
    if isinstance(holder, ObjectRef):
        yield holder
    elif type(holder) in (list, tuple):
        yield from (item for item in holder if isinstance(item, ObjectRef))
    elif type(holder) is dict:
        yield from (item for item in holder.values() if isinstance(item, ObjectRef))


def _with_values(holder: Any, values: dict[Any, Any]) -> Any:
    from ..refs import ObjectRef

    def value_of(item: Any) -> Any:
        return values[item] if isinstance(item, ObjectRef) else item

    if type(holder) in (list, tuple):
        return type(holder)(value_of(item) for item in holder)
    if type(holder) is dict:
        return {key: value_of(item) for key, item in holder.items()}
    return value_of(holder)
