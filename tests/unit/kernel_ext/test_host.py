"""What the kernel's host knows of a front end, tried without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from cellmesh.kernel_ext.cells.registry import CellRegistry
from cellmesh.kernel_ext.host import Host


def host(kernel: Any) -> Host:
    shell: Any = SimpleNamespace(user_ns={}, kernel=kernel) if kernel is not None else SimpleNamespace(user_ns={})
    return Host(shell, CellRegistry())


@pytest.mark.parametrize(
    "content, is_interactive", [({"allow_stdin": True}, True), ({"allow_stdin": False}, False), ({}, True)]
)
def test_who_answers_no_questions_reads_later(
    monkeypatch: pytest.MonkeyPatch, content: dict[str, bool], is_interactive: bool
) -> None:
    made = host(SimpleNamespace(get_parent=lambda channel: {"content": content}))
    assert made.is_interactive == is_interactive and not host(None).is_interactive
    monkeypatch.setenv("VOILA_BASE_URL", "/")
    assert made.is_interactive, "an application with somebody before it"


def test_a_line_of_code_is_no_name_to_print_under() -> None:
    made = host(None)
    run = made._cell_runs.enter(object(), label="In [7]")
    for name, shown in (("print('a', x)", "In [7]"), ("heights", "heights"), ("a, b", "a, b"), ("my task", "my task")):
        made._cell_runs.name_body(run.number, name)
        assert made.label_of(name, run.number) == shown
    assert made.label_of("print(1)", run.number) == "print(1)", "not what the cell has become"
