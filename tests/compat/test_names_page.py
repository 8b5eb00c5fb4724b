"""docs/ray-names.md, and what it claims of each public name of Ray: a name is there and takes what Ray's takes, or it
is refused as the page says.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ray_names_page", ROOT / "docs" / "tools" / "ray_names_page.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


script = load()
RECORDED = script.record()["modules"]
NAMES = [(module, name) for module, names in RECORDED.items() for name in names]


def test_the_page_is_current() -> None:
    assert script.PAGE.read_text() == script.page(), "run docs/tools/ray_names_page.py"


def test_the_record_is_of_the_ray_that_compat_plays() -> None:
    assert script.record()["version"] == importlib.import_module("cellmesh.compat.ray").__version__
    assert len(NAMES) > 140


@pytest.mark.parametrize("module, name", NAMES, ids=map(".".join, NAMES))
def test_what_the_page_says_of(module: str, name: str) -> None:
    verdict, remark = script.verdict(module, name)
    there = importlib.import_module(f"cellmesh.compat.{module}")
    recorded = RECORDED[module][name]
    if verdict == "refused":
        with pytest.raises(AttributeError) as refused:
            getattr(there, name)
        assert str(refused.value) == f"{module}.{name} has no counterpart in cellmesh: {remark}"
        assert "ray-names.md" not in remark, "the reason and the way out are to be in cellmesh/compat/missing.py"
        return
    ours = getattr(there, name)
    assert isinstance(ours, ModuleType) == (recorded["kind"] == "module")
    assert script.untaken(module, name, recorded.get("parameters")) == []
    assert set(script.lacking(module, name, recorded.get("members", {}))) <= set(script.LACKING)


def test_remarks_are_about_names_that_are_there() -> None:
    stale = [
        full
        for full in script.ADAPTED
        if tuple(full.rsplit(".", 1)) not in NAMES or script.verdict(*full.rsplit(".", 1))[0] != "adapted"
    ]
    assert stale == []
    lacking = {
        member
        for module, name in NAMES
        for member in script.lacking(module, name, RECORDED[module][name].get("members", {}))
    }
    assert set(script.LACKING) == lacking


def test_a_parameter_that_is_not_taken_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = importlib.import_module("cellmesh.compat.ray")
    monkeypatch.setattr(ray, "wait", lambda waitables, num_returns, timeout=None: None)
    assert script.untaken("ray", "wait", RECORDED["ray"]["wait"]["parameters"]) == [
        "ray_waitables",
        "fetch_local",
        "needs waitables",
        "needs num_returns",
    ]
