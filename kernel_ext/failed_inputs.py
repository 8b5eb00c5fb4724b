"""What a task that has failed was given, in a line of its error: the notebook still has the inputs of its calls (`kept_calls`)."""
from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import session as sessions
from ..failed_frames import value_in_words
from ..history import name_of_task
from ..refs import ObjectRef
from ..signatures import signature_of
from ..text import in_one_line
from .card import state_of
from .cell_task import run_cell

if TYPE_CHECKING:
    from .kept_calls import Call

N_INPUTS = 8
VALUE_CHARS = 60


def inputs_in_words(task: int, name: str) -> str:
    """"Its inputs: total = 10, n = 0." for the task called so whose error has come to the task of that number.

    That may be another task, which needs the result of the one that raised. "" if inputs are not kept.
    """
    session = sessions.current_or_none()
    if session is None or session.kept_calls is None or session.client.closed:
        return ""
    given: Mapping[str, Any] = {}
    while (call := session.kept_calls.of_task(task)) is not None:
        try:
            given = _by_name(call)
        except Exception:  # whatever the user's classes raise when they are unpickled
            return ""
        passed_on = next((value for value in given.values() if type(value) is ObjectRef and state_of(value) == "failed"), None)
        if passed_on is None:
            break
        task = passed_on.creator
    if call is None or name_of_task(session.client, task) != name:
        return ""
    words = [f"{in_one_line(key)} = {_in_words(value)}" for key, value in list(given.items())[:N_INPUTS]]
    if len(given) > N_INPUTS:
        words.append(f"{len(given) - N_INPUTS} more")
    return f"Its inputs: {', '.join(words)}." if words else ""


def _by_name(call: Call) -> Mapping[str, Any]:
    args, kwargs = call.inputs.load({})
    if type(call.called) is tuple:
        return signature_of(call.called).bind(*args, **kwargs).arguments
    if call.called.function is run_cell:
        code, *values = args
        return dict(zip(code.names, values, strict=True))
    return inspect.signature(call.called.function).bind(*args, **kwargs).arguments


def _in_words(value: Any) -> str:
    if type(value) is ObjectRef:
        made_by = name_of_task(value.client, value.creator)
        return f"<result of {in_one_line(made_by)}>" if made_by else "<a value in the store>"
    return in_one_line(" ".join(value_in_words(value, shape_above=0).split()), VALUE_CHARS)
