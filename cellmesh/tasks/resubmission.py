"""`retry`: tasks that have failed or were cancelled are submitted again, with the inputs they had.

`call_log` keeps the inputs. Another attempt of the same task, after an exception or a death, is decided in C:
`objstore/binding/worker/settle.c` and `objstore/core/clients/reap.c`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar, overload

from ..refs import ObjectRef
from ..session.current import current_or_none
from ..submit.remote_function import RemoteFunction
from .call_log import INPUT_BYTES, N_KEPT, N_PER_CELL, Call, Inputs, KeptCalls

RETRIED = ("failed", "cancelled")
EXCEPT = (
    f"except generators and calls of actors, if they are at most {INPUT_BYTES // 1000} kB each beside values that "
    "were put into the store (cellmesh.put)"
)

T = TypeVar("T")
Renewed = dict[ObjectRef, ObjectRef]
AnyFunction = RemoteFunction[..., Any, Any]


class FunctionCall(NamedTuple):
    """A call that can be made again, as a method's cannot."""

    function: AnyFunction
    inputs: Inputs[ObjectRef]
    results: tuple[ObjectRef, ...]


@overload
def retry(refs: ObjectRef[T]) -> ObjectRef[T]: ...
@overload
def retry(refs: list[ObjectRef[T]]) -> list[ObjectRef[T]]: ...


def retry(refs: Any) -> Any:
    """Submit tasks that have failed or were cancelled again, with the inputs that they had and their functions as they
    are now.

    What has failed of that which a task needs is submitted again before it. Inputs are kept in notebooks, and after
    `init(keep_calls=True)`.

    Parameters
    ----------
    refs : ObjectRef or list of ObjectRef

    Returns
    -------
    ObjectRef or list of ObjectRef
        The new ref; in a list the new one in place of each whose task has failed or was cancelled, and the others.

    Raises
    ------
    ValueError
        The task of a single ref has not failed; or inputs are gone, and then nothing has been submitted.
    """
    listed = refs if isinstance(refs, list) else [refs]
    for ref in listed:
        if not isinstance(ref, ObjectRef):
            raise TypeError(f"retry() needs an ObjectRef, or a list of them, not {ref!r}")
    failed = [ref for ref in listed if state_of(ref) in RETRIED]
    if not failed and not isinstance(refs, list):
        raise ValueError(
            f"retry() is for tasks that have failed or were cancelled, and this one {state_in_words(refs)}"
        )
    renewed = submit_again(failed)
    return [renewed.get(ref, ref) for ref in refs] if isinstance(refs, list) else renewed[refs]


def submit_again(
    refs: Iterable[ObjectRef], *, dependents: bool = False, newest: Callable[[str, str], Any] | None = None
) -> Renewed:
    """Submit the tasks of refs again, with what they need, as far as it has failed.

    Parameters
    ----------
    refs : iterable of ObjectRef
    dependents : bool
        What has failed because it needs them is submitted again, too.
    newest : callable (module, name) -> object, optional
        What is called so there now; default: in the module.

    Returns
    -------
    dict
        The new ref in place of each old one; of tasks with several, all of them.

    Raises
    ------
    ValueError
        The inputs of one of them are gone. Then nothing has been submitted.
    """
    session = current_or_none()
    kept: KeptCalls | None = session.kept_calls if session is not None else None
    plan: dict[int, FunctionCall] = {}
    for ref in refs:
        plan |= _with_needed(ref, kept)
    for number, call in kept.all() if kept is not None and dependents else ():
        if (
            number not in plan
            and any(ref.creator in plan for ref in call.inputs.refs)
            and state_of(call.results[0]) in RETRIED
        ):
            try:
                plan |= _with_needed(call.results[0], kept)
            except ValueError:  # it has not failed because of these alone, and nobody has named it
                continue
    renewed: Renewed = {}
    for _, call in sorted(plan.items()):  # inputs have lower numbers than what needs them
        args, kwargs = call.inputs.load(renewed)
        results = _newest(call.function, newest or _in_module).remote(*args, **kwargs)
        renewed.update(zip(call.results, results if type(results) is list else [results], strict=True))
    return renewed


def state_of(ref: ObjectRef) -> str:
    """The state of its task; "gone" if that of an earlier session."""
    return "gone" if ref.client.closed else ref.client.info(ref)["state"]


def state_in_words(ref: ObjectRef) -> str:
    """What a task that has not failed does instead."""
    return {"finished": "has finished", "running": "is running", "gone": "is of a session that has ended"}.get(
        state_of(ref), "has not begun yet"
    )


def _with_needed(ref: ObjectRef, kept: KeptCalls | None) -> dict[int, FunctionCall]:
    """The call of a ref, and those that have failed of what it needs, by the task's number."""
    found: dict[int, FunctionCall] = {}
    stack = [ref]
    while stack:
        ref = stack.pop()
        if ref.creator not in found:
            found[ref.creator] = call = _call_of(ref, kept)
            stack += [needed for needed in call.inputs.refs if state_of(needed) in RETRIED]
    return found


def _call_of(ref: ObjectRef, kept: KeptCalls | None) -> FunctionCall:
    if ref.client.closed:
        raise ValueError("the task's session has ended, and with it its inputs")
    call = kept.of_task(ref.creator) if kept is not None else None
    if not isinstance(call, Call) or isinstance(call.called, tuple):
        from ..observe.history import submission_of

        name = submission_of(ref.client, ref.creator)[0]
        raise ValueError(f"the inputs of {name or 'the task'!r} are gone. {_what_is_kept(kept)}")
    return FunctionCall(call.called, call.inputs, call.results)


def _what_is_kept(kept: KeptCalls | None) -> str:
    if kept is None:
        return (
            "Nothing keeps inputs here: notebooks with the extension do (%load_ext cellmesh), and programs after "
            "cellmesh.init(keep_calls=True); the option retry_exceptions=True runs a task again at once"
        )
    if kept.counts_cells:
        return (
            f"Inputs are kept of what the notebook itself submits, {EXCEPT}: of each function the first {N_PER_CELL:,} "
            "calls of a cell."
        )
    return f"Inputs are kept of the last {N_KEPT:,} calls since init(keep_calls=True) whose refs are held, {EXCEPT}."


def _newest(called: AnyFunction, newest: Callable[[str, str], Any]) -> AnyFunction:
    """The function of a call as it is defined now: that it has been mended is why one tries again."""
    now = newest(called.__module__, called.__name__)
    if isinstance(now, RemoteFunction) and all(
        getattr(now, name, "") == getattr(called, name, "") for name in ("__name__", "__qualname__", "__module__")
    ):
        return called.redefined(now)
    return called


def _in_module(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)
