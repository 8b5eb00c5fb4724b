"""`%retry`: submits tasks that have failed or were cancelled again, with the inputs that they had.

A task's failed dependencies are submitted before it, and the tasks that failed because of it after it. Then the
notebook's variables hold the new futures.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...tasks import resubmission
from ...tasks.resubmission import RETRIED, Renewed, state_in_words, state_of
from .analysis.read import CellError
from .find_refs import DEPTH_MAX, refs_in, what_is

if TYPE_CHECKING:
    from ...refs import ObjectRef


def retry(names: list[str], namespace: dict[str, Any], *, everything: bool = False) -> ObjectRef | None:
    """Submit again what has failed among the futures of some variables, and bind the new futures.

    Parameters
    ----------
    names : list of str
        Variables that hold futures, or lists, tuples, sets or dicts of them.
    namespace : dict
        The notebook's.
    everything : bool
        All variables.

    Returns
    -------
    ObjectRef or None
        The new future, if one variable was named that holds a single one.

    Raises
    ------
    CellError
        A variable holds no future; one has not failed; or inputs are gone. Then nothing has been submitted.
    """
    if not names and not everything:
        raise CellError("%retry needs variables that hold futures: %retry a b; --all means all of them")
    held: dict[str, list[ObjectRef]] = {}
    variables = _variables(namespace) if everything else {name: what_is(name, namespace) for name in names}
    for name, ref in refs_in(variables):
        held.setdefault(name, []).append(ref)
    for name in names:
        if name not in held:
            raise CellError(f"%retry: {name!r} holds no future")
    wanted = [ref for refs in held.values() for ref in refs if state_of(ref) in RETRIED]
    single = held[names[0]][0] if len(names) == 1 and len(held[names[0]]) == 1 else None
    if not wanted:
        raise CellError(
            "%retry is for tasks that have failed or were cancelled, and "
            + (f"{names[0]!r} {state_in_words(single)}" if single is not None else "there are none here")
        )
    renewed = submit_again(wanted, namespace)
    bound = rebind(namespace, renewed)
    n_tasks = len({ref.creator for ref in renewed.values()})
    print(f"Submitted {n_tasks} {'task' if n_tasks == 1 else 'tasks'} again: {', '.join(bound)}.")
    return renewed[single] if single is not None else None


def submit_again(refs: Iterable[ObjectRef], namespace: Mapping[str, Any]) -> Renewed:
    """Submit the tasks of futures again, with what they need and what needs them, as far as it has failed.

    Returns
    -------
    dict
        The new future in place of each old one, all of them for a task with several.

    Raises
    ------
    CellError
        The inputs of one of them are gone. Then nothing has been submitted.
    """
    try:
        return resubmission.submit_again(refs, dependents=True, newest=lambda _, name: namespace.get(name))
    except ValueError as error:
        raise CellError(f"%retry: {error}") from None


def rebind(namespace: dict[str, Any], renewed: Renewed) -> list[str]:
    """Have variables, and the lists, tuples, sets and dicts in them, hold new futures.

    Returns which ones have changed, in words.
    """
    from ...refs import ObjectRef

    changed = []
    for name, value in _variables(namespace).items():
        n_new = len({ref for _, ref in refs_in({name: value}) if ref in renewed})
        if n_new:
            namespace[name] = _replaced(value, renewed)
            changed.append(name if isinstance(value, ObjectRef) else f"{n_new} in {name}")
    return changed


def _variables(namespace: dict[str, Any]) -> dict[str, Any]:
    """Those of the user."""
    return {
        name: value for name, value in list(namespace.items()) if not name.startswith("_") and name not in ("In", "Out")
    }


def _replaced(value: Any, renewed: Renewed, depth: int = 0) -> Any:
    from ...refs import ObjectRef

    if isinstance(value, ObjectRef):
        return renewed.get(value, value)
    if depth >= DEPTH_MAX or type(value) not in (list, tuple, set, frozenset, dict):
        return value
    if type(value) is dict:  # dicts and lists in place: other names may mean them too
        value.update({key: _replaced(item, renewed, depth + 1) for key, item in value.items()})
        return value
    items = [_replaced(item, renewed, depth + 1) for item in value]
    if type(value) is list:
        value[:] = items
        return value
    return type(value)(items)
