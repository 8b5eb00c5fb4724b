"""Widgets that a task displays: shown as they are at that moment, with a sentence that says why they do not change.

A page exchanges messages, on a comm, with the process that made a widget. A worker's messages would lead nowhere: the
page speaks with the kernel alone, and a task that has ended could not answer.
"""

from __future__ import annotations

import html
import sys
from base64 import b64encode
from importlib import import_module
from typing import Any

# Points to a model in the kernel, which does not know the widgets of a worker.
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
NOTE = (
    "This widget was made in a task and does not move: the page cannot reach a worker. Make it in the notebook and "
    "change it there by what tasks return; for progress take cellmesh.progress(refs), or tqdm in the task."
)
N_LEVELS = 8  # of boxes in boxes
IMAGES = ("png", "jpeg", "gif", "webp")

Bundle = dict[str, Any]


def still(data: Bundle) -> Bundle:
    """A bundle without its live widget; empty if there is nothing to be seen."""
    rest = {mime: value for mime, value in data.items() if mime != WIDGET_MIME}
    if len(rest) == len(data) or rest.keys() - {"text/plain"}:  # no widget, or one that brings a picture of itself
        return rest
    widget = _widget(data[WIDGET_MIME].get("model_id", ""))
    if type(widget).__name__ == "Output":  # what is written into it stands below, as all output of the task
        return {}
    drawn = _drawn(widget, N_LEVELS) if widget is not None else html.escape(str(rest.get("text/plain", "")))
    return {
        "text/plain": f"{rest.get('text/plain', '')}\n({NOTE})",
        "text/html": f"{drawn}<p><small>{NOTE}</small></p>",
    }


def _widget(model_id: str) -> Any:
    """The widget of that number, None if it is not one of ipywidgets'."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    return getattr(module, "_instances", {}).get(model_id)


def _drawn(widget: Any, n_levels: int) -> str:
    ipywidgets: Any = import_module("ipywidgets")  # it has no types
    if isinstance(widget, ipywidgets.Output):
        return ""
    label = html.escape(getattr(widget, "description", None) or "")
    if isinstance(widget, ipywidgets.Box) and n_levels:
        return "".join(f"<div>{_drawn(child, n_levels - 1)}</div>" for child in widget.children)
    if isinstance(widget, ipywidgets.HTML | ipywidgets.HTMLMath):
        return f"{label} {widget.value}"
    if isinstance(widget, ipywidgets.Image) and widget.format in IMAGES:
        return f'<img src="data:image/{widget.format};base64,{b64encode(widget.value).decode()}">'
    if isinstance(widget, ipywidgets.IntProgress | ipywidgets.FloatProgress):
        done, span = widget.value - widget.min, widget.max - widget.min
        return (
            f'{label} <progress max="{span}" value="{done}" style="width:20em"></progress> {widget.value:g} of '
            f"{widget.max:g}"
        )
    return f"<code>{html.escape(repr(widget))}</code>"
