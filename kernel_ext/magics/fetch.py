"""`%fetch`: replaces the futures that variables hold with their values."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..cells.analysis.read import CellError
from ..cells.capture import Shipper
from ..cells.find_refs import DEPTH_MAX

if TYPE_CHECKING:
    from ...refs import ObjectRef


def fetch(names: list[str], namespace: dict[str, Any], timeout: float | None, shipper: Shipper) -> None:
    """Wait for futures and bind their values; variables that hold none are left alone.

    Parameters
    ----------
    names : list of str
        Each holds a future, or a list, tuple or dict with futures, or with others of these.
    namespace : dict
        The notebook's.
    timeout : float, seconds, >= 0, optional
        For all together.
    shipper : Shipper
        Is told which values lie in the store already.

    Raises
    ------
    CellError
        No names, or one that does not exist; or there is a set of futures.
    CellmeshError
        A task has failed; then no variable is changed.
    """
    if not names:
        raise CellError("%fetch needs the names of variables that hold futures: %fetch a b")
    for name in names:
        if name not in namespace:
            raise CellError(f"%fetch: there is no variable {name!r}")
    holders = {name: namespace[name] for name in names}
    refs: dict[ObjectRef, ObjectRef] = {}

    def note(ref: ObjectRef) -> None:
        refs[ref] = ref

    without = [name for name, holder in holders.items() if _replaced(name, holder, note) is holder]
    if without:
        advice = "".join(_advice(name, holders[name]) for name in without)
        print(f"{', '.join(without)} {'hold' if without[1:] else 'holds'} no future: nothing to fetch there.{advice}")
    if not refs:
        return
    from ...objects import get
    from ...refs import ObjectRef

    values = get(refs, timeout)
    for name, holder in holders.items():
        if name not in without:
            namespace[name] = _replaced(name, holder, values.__getitem__)
        if isinstance(holder, ObjectRef):
            shipper.remember(name, namespace[name], holder)


def _advice(name: str, holder: Any) -> str:
    """What to do with what hands out futures, or values, one by one."""
    from ...submit.generator import ObjectRefGenerator
    from ...submit.mapping import Results

    if isinstance(holder, Results):
        return f" {name} = list({name}) reads the results of the map."
    return (
        f" {name} = list({name}) waits for all that the generator yields."
        if isinstance(holder, ObjectRefGenerator)
        else ""
    )


def _replaced(name: str, holder: Any, value_of: Callable[[ObjectRef], Any], depth: int = 0) -> Any:
    """The same with something else in the place of each future; itself, if there is none."""
    from ...refs import ObjectRef

    if isinstance(holder, ObjectRef):
        return value_of(holder)
    kind = type(holder)
    if kind not in (list, tuple, dict, set, frozenset) or depth == DEPTH_MAX:
        return holder
    items = list(holder.values() if kind is dict else holder)
    new = [_replaced(name, item, value_of, depth + 1) for item in items]
    if all(map(operator.is_, new, items)):
        return holder
    if kind in (set, frozenset):
        remedy = f"{name} = list({name})" if depth == 0 else "make it a list"
        raise CellError(
            f"%fetch: there is a set of futures in {name!r}, and its order does not tell which value belongs to which "
            f"future: {remedy}"
        )
    return dict(zip(holder, new, strict=True)) if kind is dict else kind(new)
