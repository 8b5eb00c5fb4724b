"""The inputs of a failed task in a line of its error; `tasks/call_log.py` keeps the inputs of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors.frames import value_in_words
from ...objstore.annotations import get_signature
from ...observe.history import name_of_task
from ...refs import ObjectRef
from ...session.current import current_or_none
from ...submit.signatures import signature_of
from ...tasks.call_log import Call, MadeBy
from ...tasks.resubmission import state_of
from ...text import in_one_line
from .task import run_cell

if TYPE_CHECKING:
    from ...objstore._core import Client
    from ...tasks.call_log import KeptCalls, NamedCall

N_INPUTS = 8
VALUE_CHARS = 60


def inputs_in_words(task: int, name: str) -> str:
    """ "Its inputs: total = 10, n = 0." for the task called so whose error has come to the task of that number.

    That may be another task, which needs the result of the one that raised. "" if inputs are not kept.
    """
    session = current_or_none()
    if session is None or session.kept_calls is None or session.client.closed:
        return ""
    given: Mapping[str, Any] = {}
    while (call := session.kept_calls.of_task(task)) is not None:
        try:
            given = _by_name(call)
        except Exception:  # whatever the user's classes raise when they are unpickled
            return ""
        passed_on = next(filter(None, (_failed_maker(value, session.kept_calls) for value in given.values())), 0)
        if not passed_on:
            break
        task = passed_on
    if call is None or name_of_task(session.client, task) != name:
        return ""
    words = [
        f"{in_one_line(key)} = {_in_words(value, session.client)}" for key, value in list(given.items())[:N_INPUTS]
    ]
    if len(given) > N_INPUTS:
        words.append(f"{len(given) - N_INPUTS} more")
    return f"Its inputs: {', '.join(words)}." if words else ""


def _by_name(call: Call | NamedCall) -> Mapping[str, Any]:
    args, kwargs = call.inputs.load({})
    if call.called is None:
        raise TypeError("the names of its parameters are not known")
    if isinstance(call.called, tuple):
        return signature_of(call.called).bind(*args, **kwargs).arguments
    if call.called.function is run_cell:
        code, *values = args
        return dict(zip(code.names, values, strict=True))
    return get_signature(call.called.function).bind(*args, **kwargs).arguments


def _failed_maker(value: Any, kept: KeptCalls) -> int:
    """The number of the failed task that was to make an input; 0 if there is none, or it is not known."""
    if type(value) is MadeBy:
        call = kept.of_task(value)
        value = call.results[0] if isinstance(call, Call) and call.results else None
    return value.creator if type(value) is ObjectRef and state_of(value) == "failed" else 0


def _in_words(value: Any, client: Client) -> str:
    if type(value) in (ObjectRef, MadeBy):
        made_by = name_of_task(client, value if type(value) is MadeBy else value.creator)
        return f"<result of {in_one_line(made_by)}>" if made_by else "<a value in the store>"
    return in_one_line(" ".join(value_in_words(value, shape_above=0).split()), VALUE_CHARS)
