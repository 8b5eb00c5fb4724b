"""Environments on an engine, with the one that plays a cluster: sessions, drivers, and the folder of a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import cellmesh
from cellmesh.engines.environment import folder
from cellmesh.environment.runtime_env import CHANGES, NAMESPACE, TRAVELS, number_of
from cellmesh.session.current import running

PATIENCE_S = 30.0


@cellmesh.remote
def look() -> str | None:
    return os.environ.get("CM_THERE")


def test_that_of_the_session_is_the_default(start: Callable[..., ModuleType]) -> None:
    cm = start(runtime_env={"env_vars": {"CM_THERE": "session"}})
    own = look.options(runtime_env={"env_vars": {"CM_THERE": "own"}})
    assert cm.get([look.remote(), own.remote(), look.remote()], timeout=PATIENCE_S) == ["session", "own", "session"]


OTHER = """
import sys
import cellmesh as cm

cm.init(address=sys.argv[1], namespace="other")

@cm.remote
def namespace():
    return cm.get_runtime_context().namespace

for _ in sys.stdin:
    print(cm.get(namespace.remote(), timeout=float(sys.argv[2])), flush=True)
"""


def test_two_drivers_with_namespaces_of_their_own(start: Callable[..., ModuleType]) -> None:
    cm = start(namespace="mine")

    @cm.remote
    def namespace() -> str:
        return cm.get_runtime_context().namespace

    command = [sys.executable, "-c", OTHER, running().node.address, str(PATIENCE_S)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for _ in range(3):
            other.stdin.write("\n")
            other.stdin.flush()
            assert other.stdout.readline() == "other\n"
            assert cm.get(namespace.remote(), timeout=PATIENCE_S) == "mine"


def test_what_numbers_say() -> None:
    namespace = {NAMESPACE: "a"}
    variables = {**namespace, "env_vars": {"A": "1"}}
    folders = {**namespace, "working_dir": "/project"}
    said = [number_of(each, True) & (CHANGES | TRAVELS) for each in (namespace, variables, folders)]
    assert said == [TRAVELS, CHANGES | TRAVELS, CHANGES | TRAVELS]
    assert number_of(folders, False) & (CHANGES | TRAVELS) == CHANGES
    assert not number_of({}, True)


def test_a_folder_goes_with_the_last_that_holds_it(tmp_path: Path) -> None:
    there = tmp_path / "there"
    first, second = folder.hold(str(there)), folder.hold(str(there))
    (there / "packages").mkdir()
    os.close(first)
    folder.remove_if_unused(str(there))
    assert (there / "packages").is_dir()
    os.close(second)
    folder.remove_if_unused(str(there))
    assert not os.listdir(tmp_path)
    folder.remove_if_unused(str(there))  # another one was quicker


def test_what_killed_processes_have_left_is_swept(tmp_path: Path) -> None:
    for name in ("environments-a", f"environments-a-1{folder.REMOVED}"):
        os.close(folder.hold(str(tmp_path / name)))
        (tmp_path / name / "packages").mkdir()
    others = folder.hold(str(tmp_path / "environments-b"))
    (tmp_path / "session-c").mkdir()
    folder.sweep(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["environments-b", "session-c"]
    os.close(others)
