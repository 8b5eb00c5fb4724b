"""The architecture, checked: who may import whom, and which modules are pure.

objstore <- scheduler <- cellmesh <- kernel_ext, never back; one module speaks ZeroMQ; cores and policies know no clock,
no socket and no process, so that whatever they decide can be tested by calling them.
"""
from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ["objstore", "scheduler", "cellmesh", "kernel_ext"]  # each may import itself and what stands before it
IMPURE = {"time", "datetime", "socket", "select", "selectors", "asyncio", "subprocess", "threading", "multiprocessing",
          "signal", "os", "zmq", "psutil"}
PURE = {"core.py", "policy.py", "states.py", "messages.py", "ids.py", "lineage.py", "cells.py", "graph.py", "panel_messages.py", "stream.py",
        "head.py", "ledger.py", "member.py", "places.py"}
# `%load_ext cellmesh` finds its hooks in the package itself, so the package must reach the kernel's side, when asked to.
LOAD_EXTENSION = ("cellmesh/__init__.py", {"load_ipython_extension", "unload_ipython_extension"})


def modules() -> list[Path]:
    return sorted(p for layer in LAYERS for p in (ROOT / layer).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> list[str]:
    """The dotted package a module lies in, as a list: scheduler/worker/main.py -> cellmesh, scheduler, worker."""
    folders = list(path.relative_to(ROOT).parts[:-1])
    return folders if folders[0] == "cellmesh" else ["cellmesh", *folders]


def imported(path: Path, tree: ast.AST) -> set[str]:
    """Absolute names of everything imported anywhere in `tree`, relative ones resolved."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = package_of(path)
            base = package[:len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{stem}.{alias.name}" for alias in node.names}
    return found


def type_checking_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def parse(path: Path) -> ast.Module:
    """The module without what only a type checker imports and without the hooks of `%load_ext`."""
    tree = ast.parse(path.read_text(), str(path))
    hooks = LOAD_EXTENSION[1] if name(path) == LOAD_EXTENSION[0] else set()
    tree.body = [node for node in tree.body if not type_checking_only(node)
                 and not (isinstance(node, ast.FunctionDef) and node.name in hooks)]
    return tree


def layer_of(dotted: str) -> str | None:
    """The layer an imported name belongs to, None for other people's."""
    parts = dotted.split(".")
    if parts[0] != "cellmesh":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "cellmesh"


@pytest.mark.parametrize("path", modules(), ids=name)
def test_arrows_never_point_back(path: Path) -> None:
    own = LAYERS.index(path.relative_to(ROOT).parts[0])
    back = {dotted for dotted in imported(path, parse(path))
            if (layer := layer_of(dotted)) is not None and LAYERS.index(layer) > own}
    assert not back, f"{name(path)} imports {', '.join(sorted(back))}: {' <- '.join(LAYERS)}"


def test_only_the_wire_between_machines_imports_zmq() -> None:
    users = {name(p) for p in modules() if any(d.split(".")[0] == "zmq" for d in imported(p, parse(p)))}
    assert users == {"scheduler/cluster/sockets.py", "scheduler/cluster/wire.py"}


def is_pure(path: Path) -> bool:
    return path.name in PURE


@pytest.mark.parametrize("path", [p for p in modules() if is_pure(p)], ids=name)
def test_cores_know_no_clock_socket_or_process(path: Path) -> None:
    impure = {dotted for dotted in imported(path, parse(path)) if dotted.split(".")[0] in IMPURE}
    assert not impure, f"{name(path)} imports {', '.join(sorted(impure))}; pass what it needs as an argument"


@pytest.mark.parametrize("source, message", [
    ("from ..kernel_ext import comm", "cellmesh.kernel_ext"),
    ("from .. import kernel_ext", "cellmesh.kernel_ext"),
    ("import cellmesh.kernel_ext.comm", "cellmesh.kernel_ext"),
    ("def f():\n    from ..kernel_ext.comm import x", "cellmesh.kernel_ext"),
])
def test_the_check_sees_every_form_of_import(source: str, message: str) -> None:
    found = imported(ROOT / "scheduler/node.py", ast.parse(source))
    assert any(dotted.startswith(message) and layer_of(dotted) == "kernel_ext" for dotted in found)
