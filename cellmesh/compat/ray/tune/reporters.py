"""Ray's progress reporters: accepted. What is shown is ours, a live card in a notebook and nothing in a script."""

from __future__ import annotations

from typing import Any


class ProgressReporter:
    """Accepted, and never called."""

    def setup(self, start_time: float | None = None, total_samples: int | None = None, **info: Any) -> None:
        """Never called."""

    def should_report(self, trials: list[Any], done: bool = False) -> bool:
        """Never called."""
        return False

    def report(self, trials: list[Any], done: bool, *sys_info: Any) -> None:
        """Never called."""


class CLIReporter(ProgressReporter):
    """Accepted with its options, and never called."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Accepted."""

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Accepted."""


class JupyterNotebookReporter(CLIReporter):
    """Accepted with its options, and never called."""
