"""Which packages an engine's workers must have, and which are sent there."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from cellmesh.engines.connection.sent_before import MOST, note_sent, sent_before
from cellmesh.engines.connection.shipping import SENT, folders, looks, problem, to_send
from cellmesh.engines.dask.sending import unpacks
from cellmesh.engines.ray.joining import joined
from cellmesh.environment.packages import pack

LINUX, ARM = "cpython-311-x86_64-linux-gnu", "cpython-311-aarch64-linux-gnu"
HERE = {
    "Python": "3.11",
    "platform": LINUX,
    "why": "",
    "cellmesh": "1.0",
    "msgspec": "0.20.0",
    "cloudpickle": "3.1.2",
    "distributed": "2026.8.0",
}


def missing(**there: str) -> tuple[str, ...]:
    return to_send(HERE, {"one": HERE, "two": HERE | there})


def told(may_send: bool = True, has_sent: bool = False, **there: str) -> str:
    return problem(HERE, {"one": HERE, "two": HERE | there}, may_send=may_send, has_sent=has_sent)


@pytest.mark.parametrize(
    ("there", "names"),
    [
        ({}, ()),
        ({"msgspec": "0.19.0", "cloudpickle": "3.0.0", "distributed": "2026.8.1"}, ()),
        ({"cellmesh": ""}, ("cellmesh",)),
        ({"cellmesh": "1.1"}, ("cellmesh",)),
        ({"cellmesh": "", "msgspec": "", "cloudpickle": ""}, SENT),
        ({"cellmesh": "", "cloudpickle": "2.2.1"}, ("cellmesh", "cloudpickle")),
        ({"cellmesh": "", "platform": ARM}, ()),
        ({"cellmesh": "", "Python": "3.12", "platform": "cpython-312-x86_64-linux-gnu"}, ()),
    ],
)
def test_what_is_missing_is_sent_where_it_can_be_used(there: dict[str, str], names: tuple[str, ...]) -> None:
    assert missing(**there) == names


def test_versions_that_differ_are_named_with_the_remedy() -> None:
    assert "two has Python 3.12, and this program has Python 3.11: what is sent there" in told(Python="3.12")
    assert "two has cloudpickle 2.2.1, and this program has cloudpickle 3.1.2" in told(cloudpickle="2.2.1")
    assert "two has distributed 2025.1.0" in told(distributed="2025.1.0")
    assert told(cellmesh="1.1").endswith("Use the same version here and there")
    assert told(distributed="").endswith(
        "has no distributed: install it there, `pip install distributed==2026.8.0` in its environment"
    )


def test_who_may_not_send_is_told_that_it_could_and_how_to_install() -> None:
    text = told(may_send=False, cellmesh="")
    assert '`pip install cellmesh==1.0` in its environment, or leave engine_options={"ship": False} out' in text


def test_what_cannot_be_imported_there_is_told_with_both_platforms() -> None:
    assert f"compiled for {LINUX}, and Python there is {ARM}" in told(cellmesh="", platform=ARM)


def test_what_was_sent_in_vain_is_told_with_the_reason() -> None:
    text = told(has_sent=True, cellmesh="", why="/lib/libc.so.6: version `GLIBC_2.38' not found")
    assert "is not used: /lib/libc.so.6: version `GLIBC_2.38' not found" in text
    assert "imported before it came: start the workers again" in told(has_sent=True, cellmesh="0.9")


ALONE = """
import pickle, sys
look, unpack, below = pickle.loads(sys.stdin.buffer.read())
found = [look()]
if unpack is not None:
    assert unpack(below) and not unpack(below)
    found.append(look())
sys.stdout.buffer.write(pickle.dumps(found))
"""


def test_a_process_that_has_nothing_looks_and_unpacks(tmp_path: Path) -> None:
    """Both travel by value: it has no cellmesh, nor cloudpickle but the one that they are read with."""
    packages = {name: pack(folder) for name, folder in folders(("cellmesh", "msgspec")).items()}
    there = tmp_path / "there"
    there.mkdir()
    with_cloudpickle = folders(("cloudpickle",))["cloudpickle"]
    (there / "cloudpickle").symlink_to(with_cloudpickle)
    sent = cloudpickle.dumps((looks(), unpacks(packages), str(tmp_path)))
    run = subprocess.run(
        [sys.executable, "-S", "-c", ALONE],
        input=sent,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(there), "PYTHONSAFEPATH": "1"},
        check=True,
    )
    before, after = pickle.loads(run.stdout)
    here = looks()()
    assert (before["cellmesh"], before["msgspec"], before["why"]) == ("", "", "No module named 'cellmesh'")
    assert {name: after[name] for name in ("cellmesh", "msgspec", "platform")} == {
        name: here[name] for name in ("cellmesh", "msgspec", "platform")
    }
    assert to_send(here, {"it": before}) == ("cellmesh", "msgspec")
    assert problem(here, {"it": after}, may_send=True, has_sent=True) == ""


def test_a_look_leaves_nothing_imported(tmp_path: Path) -> None:
    old = tmp_path / "cellmesh"
    (old / "objstore").mkdir(parents=True)
    (old / "__init__.py").write_text('__version__ = "0.0.1"\n')
    (old / "objstore" / "_core.py").write_text("")
    (tmp_path / "cloudpickle").symlink_to(folders(("cloudpickle",))["cloudpickle"])
    program = ALONE.replace("sys.stdout.buffer", "assert 'cellmesh' not in sys.modules\nsys.stdout.buffer")
    run = subprocess.run(
        [sys.executable, "-S", "-c", program],
        input=cloudpickle.dumps((looks(), None, "")),
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
        check=True,
    )
    assert pickle.loads(run.stdout)[0]["cellmesh"] == "0.0.1"


def test_what_was_sent_is_sent_at_once_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert sent_before("ray:one") == ()
    note_sent("ray:one", ("cellmesh", "msgspec"))
    note_sent("ray:two", ())
    assert [sent_before(address) for address in ("ray:one", "ray:two")] == [("cellmesh", "msgspec"), ()]
    note_sent("ray:one", ())
    assert sent_before("ray:one") == ()
    for n in range(MOST + 1):
        note_sent(f"ray:{n}", SENT)
    assert [sent_before(f"ray:{n}") for n in (0, 1, MOST)] == [(), SENT, SENT]
    (tmp_path / "cache/cellmesh/sent.json").write_text("[")
    assert sent_before("ray:1") == ()
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/nowhere")
    note_sent("ray:1", SENT)


class Ray:
    """In the place of Ray: a cluster whose workers have what they have, unless they are sent another one."""

    __version__ = "2.60.0"
    exceptions = SimpleNamespace(GetTimeoutError=TimeoutError, RayError=RuntimeError)
    runtime_env = SimpleNamespace(RuntimeEnv=lambda **given: None)

    def __init__(self, has: dict[str, str], is_compiled_for: str) -> None:
        self._has, self._platform = has, is_compiled_for
        self.begun: list[int] = []  # how many packages each job was sent
        self.shutdown = lambda: None

    def begin(self, runtime_env: Any, **given: Any) -> None:
        self.begun.append(len((runtime_env or {}).get("py_modules", [])))

    def remote(self, look: Callable[[], dict[str, str]]) -> Any:
        here = look()
        there = here | {"platform": self._platform or here["platform"]} | ({} if self.begun[-1] else self._has)
        if self.begun[-1] and self._platform:
            there |= {"cellmesh": "", "why": "it is compiled for another one"}
        return SimpleNamespace(options=lambda **given: SimpleNamespace(remote=lambda: there))

    def get(self, value: Any, timeout: float) -> Any:
        return value


def test_who_connects_again_where_cellmesh_is_missing_connects_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def begun(ray: Ray, **options: Any) -> list[int]:
        joined(ray, "ray:one", "", options, ray.begin)
        return ray.begun

    assert begun(Ray({"cellmesh": ""}, "")) == [0, 1]
    assert begun(Ray({"cellmesh": ""}, "")) == [1]
    assert begun(Ray({}, ""), ship=False) == [0]
    assert begun(Ray({}, "another")) == [1, 0], "it has its own now, and could not import this one"
    assert begun(Ray({}, "another")) == [0]
