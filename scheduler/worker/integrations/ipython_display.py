"""IPython's `display()` inside tasks: computed here, shown in the notebook. Only tasks import IPython, never the worker
itself.

Without a shell IPython's `display` prints a repr. When a task imports IPython's display module, its three functions
that need a shell are replaced: they make the bundle of representations and hand it to the worker's output. As in a
notebook, `display` is there without an import; its first use imports IPython.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from .import_hook import Show, on_import

MODULE = "IPython.core.display_functions"


def install(show: Show) -> None:
    """Route displays to `show`, now if IPython is there, otherwise when it is imported."""
    builtins.__dict__["display"] = _display
    on_import(MODULE, lambda module: replace_functions(module, show))


def _display(*objs: Any, **options: Any) -> Any:
    """Show objects in the notebook that submitted this task; parameters as IPython's `display`."""
    display_functions: Any = import_module(MODULE)
    return display_functions.display(*objs, **options)


def replace_functions(module: Any, show: Show) -> None:
    """Give IPython.core.display_functions ways to display without a shell. The rest of it is built on these three."""
    formats = _Formats()

    def publish_display_data(
        data: dict[str, Any],
        metadata: dict[str, Any] | None = None,
        *,
        source: str | None = None,
        transient: dict[str, Any] | None = None,
        update: bool = False,
        **ignored: Any,
    ) -> None:
        """Show a bundle of representations in the notebook that submitted this task."""
        from .ipywidgets_still import still

        if shown := {mime: _as_json(value) for mime, value in still(data).items()}:
            show("update_display" if update else "display", shown, metadata or {}, transient or {})

    def display(
        *objs: Any,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        metadata: dict[str, Any] | None = None,
        transient: dict[str, Any] | None = None,
        display_id: Any = None,
        raw: bool = False,
        clear: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Show objects in the notebook that submitted this task; parameters as IPython's `display`."""
        transient = dict(transient or {})
        if display_id is True:
            display_id = os.urandom(16).hex()
        if display_id is None and kwargs.get("update"):
            raise TypeError("display_id required for update_display")
        if display_id is not None:
            transient["display_id"] = display_id
        if clear:
            clear_output(wait=True)
        for obj in objs:
            data, described = (obj, {}) if raw else formats(obj, include, exclude)
            if data:
                publish_display_data(data, {**described, **(metadata or {})}, transient=transient, **kwargs)
        return module.DisplayHandle(display_id) if display_id is not None else None

    def clear_output(wait: bool = False) -> None:
        """Clear the output of the cell that submitted this task."""
        show("clear_output", {"wait": wait}, {}, {})

    module.publish_display_data, module.display, module.clear_output = publish_display_data, display, clear_output


class _Formats:
    """IPython's formatters without a shell; made at the first display."""

    def __init__(self) -> None:
        self._formatter: Any = None

    def __call__(
        self, obj: Any, include: Iterable[str] | None, exclude: Iterable[str] | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if self._formatter is None:
            from IPython.core.formatters import DisplayFormatter

            self._formatter = DisplayFormatter()
            self._formatter.formatters["image/png"].for_type_by_name("matplotlib.figure", "Figure", _figure_png)
        return self._formatter.format(obj, include=include, exclude=exclude)


def _figure_png(figure: Any) -> Any:
    pylabtools: Any = import_module("IPython.core.pylabtools")
    return pylabtools.print_figure(figure, fmt="png", base64=True)


def _as_json(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    from base64 import b64encode

    return b64encode(value).decode()
