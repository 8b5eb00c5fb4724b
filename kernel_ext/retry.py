"""`%retry`: tasks that have failed or were cancelled are submitted again, with the inputs they had.

What has failed of that which a task needs is submitted again before it, and what has failed because of it after it. The
notebook's variables then hold the new futures.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .card import state_of
from .cells import CellError
from .find import DEPTH_MAX, refs_in
from .kept_calls import INPUT_BYTES, N_PER_CELL, Call, KeptCalls

if TYPE_CHECKING:
    from ..refs import ObjectRef

RETRIED = ("failed", "cancelled")
KEPT_ARE = (f"Inputs are kept of what the notebook itself submits, except generators and calls of actors: of each "
            f"function the first {N_PER_CELL:,} calls of a cell, if they are at most {INPUT_BYTES // 1000} kB each "
            "beside values that were put into the store (cellmesh.put).")

Renewed = dict["ObjectRef", "ObjectRef"]


def retry(names: list[str], namespace: dict[str, Any], *, everything: bool = False) -> ObjectRef | None:
    """Submit again what has failed among the futures of some variables, and bind the new futures.

    Parameters
    ----------
    names : list of str
        Variables that hold futures, or lists, tuples or dicts of them.
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
    variables = _variables(namespace) if everything else {name: namespace.get(name) for name in names}
    for name, ref in refs_in(variables):
        held.setdefault(name, []).append(ref)
    for name in names:
        if name not in held:
            raise CellError(f"%retry: {name!r} holds no future")
    wanted = [ref for refs in held.values() for ref in refs if state_of(ref) in RETRIED]
    single = held[names[0]][0] if len(names) == 1 and len(held[names[0]]) == 1 else None
    if not wanted:
        raise CellError("%retry is for tasks that have failed or were cancelled, and " +
                        (f"{names[0]!r} {_state_in_words(single)}" if single is not None else "there are none here"))
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
        The new future in place of each old one; of tasks with several, all of them.

    Raises
    ------
    CellError
        The inputs of one of them are gone. Then nothing has been submitted.
    """
    from ..session import current_or_none
    session = current_or_none()
    kept = session.kept_calls if session is not None else None
    plan: dict[int, Call] = {}
    for ref in refs:
        plan |= _with_needed(ref, kept)
    for number, call in kept.all() if kept is not None else ():
        if (number not in plan and any(ref.creator in plan for ref in call.inputs.refs)
                and state_of(call.results[0]) in RETRIED):
            try:
                plan |= _with_needed(call.results[0], kept)
            except CellError:  # it has not failed because of these alone, and nobody has named it
                continue
    renewed: Renewed = {}
    for _, call in sorted(plan.items()):  # inputs have lower numbers than what needs them
        args, kwargs = call.inputs.load(renewed)
        results = _newest(call, namespace).remote(*args, **kwargs)
        renewed.update(zip(call.results, results if type(results) is list else [results], strict=True))
    return renewed


def _with_needed(ref: ObjectRef, kept: KeptCalls | None) -> dict[int, Call]:
    """The call of a future, and those that have failed of what it needs, by the task's number."""
    found: dict[int, Call] = {}
    stack = [ref]
    while stack:
        ref = stack.pop()
        if ref.creator not in found:
            found[ref.creator] = call = _call_of(ref, kept)
            stack += [needed for needed in call.inputs.refs if state_of(needed) in RETRIED]
    return found


def _call_of(ref: ObjectRef, kept: KeptCalls | None) -> Call:
    if ref.client.closed:
        raise CellError("%retry: the task's session has ended, and with it its inputs")
    call = kept.of_task(ref.creator) if kept is not None else None
    if call is None or type(call.called) is tuple:
        from ..history import submission_of
        name = submission_of(ref.client, ref.creator)[0]
        raise CellError(f"%retry: the inputs of {name or 'the task'!r} are gone. {KEPT_ARE}")
    return call


def _newest(call: Call, namespace: Mapping[str, Any]) -> Any:
    """The function of a call as it is defined now: that it has been mended is why one tries again."""
    from ..remote_function import RemoteFunction
    name = call.called.__name__
    now = namespace.get(name)
    if isinstance(now, RemoteFunction) and now.__name__ == name and now.__module__ == call.called.__module__:
        return call.called.redefined(now)
    return call.called


def rebind(namespace: dict[str, Any], renewed: Renewed) -> list[str]:
    """Have variables, and the lists, tuples and dicts in them, hold new futures; which ones have changed, in words."""
    changed = []
    for name, value in _variables(namespace).items():
        n_new = len({ref for _, ref in refs_in({name: value}) if ref in renewed})
        if n_new:
            namespace[name] = _replaced(value, renewed)
            changed.append(name if namespace[name] in renewed.values() else f"{n_new} in {name}")
    return changed


def _variables(namespace: dict[str, Any]) -> dict[str, Any]:
    """Those of the user."""
    return {name: value for name, value in list(namespace.items())
            if not name.startswith("_") and name not in ("In", "Out")}


def _replaced(value: Any, renewed: Renewed, depth: int = 0) -> Any:
    from ..refs import ObjectRef
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


def _state_in_words(ref: ObjectRef) -> str:
    state = state_of(ref)
    return {"finished": "has finished", "running": "is running", "gone": "is of a session that has ended"}.get(
        state, "has not begun yet")
