"""The store on its own: several processes, no session, no server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cellmesh.objstore import Store, StoreError

DOCS = Path(__file__).resolve().parents[2] / "docs/objstore.md"


class Other:
    """A process that is attached to the store and evaluates what it is told."""

    CODE = """
import sys
from cellmesh.objstore import Store
store = Store.attach(sys.argv[1])
kept = {}
for line in sys.stdin:
    print(eval(line), flush=True)
"""

    def __init__(self, address: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, expression: str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(expression + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self, signum: int | None = None) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        if signum is not None:
            self.process.send_signal(signum)
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


@pytest.fixture
def other(store: Store) -> Iterator[Other]:
    process = Other(store.address)
    yield process
    process.end()


def test_values_are_shared_where_they_lie(store: Store, other: Other) -> None:
    array = np.arange(1_000_000)
    ref = store.put({"array": array, "name": "n"})
    assert other(f"store.get(store.ref({ref.hex()!r}))['array'].sum()") == str(array.sum())
    assert other(f"store.get(store.ref({ref.hex()!r}))['array'].flags.writeable") == "True"
    assert other(f"store.get(store.ref({ref.hex()!r}), readonly=True)['array'].flags.writeable") == "False"
    assert store.stats()["n_objects"] == 1
    back = store.ref(other("kept.setdefault('x', store.put(list('abc'))).hex()"))
    assert store.get([back, ref])[0] == ["a", "b", "c"]
    assert store.wait([back, ref], num_returns=2, timeout=0) == ([back, ref], [])


def test_an_object_lives_as_long_as_somebody_refers_to_it(store: Store, other: Other) -> None:
    ref = store.put(b"x" * 100_000)
    name = ref.hex()
    assert other(f"kept.setdefault('y', store.ref({name!r})) is not None") == "True"
    del ref
    store.release()
    assert store.get(store.ref(name)) == b"x" * 100_000
    assert other("(kept.clear(), store.release())") == "(None, None)"
    store.release()
    with pytest.raises(LookupError, match=name):
        store.ref(name)


def test_what_a_killed_process_held_comes_back(store: Store) -> None:
    other = Other(store.address)
    held = int(other("kept.setdefault('z', store.put(bytes(1 << 20)))._slot >= 0 and store.stats()['used_bytes']"))
    other.end(signal.SIGKILL)
    assert store.stats()["used_bytes"] == held > 1 << 20
    assert store.reap() == [other.process.pid] and store.reap() == []
    assert store.stats()["used_bytes"] < 1 << 20


def test_a_full_store_buries_the_dead_before_it_refuses(store: Store) -> None:
    other = Other(store.address)
    other("kept.setdefault('z', store.put(bytes(40 << 20))).hex()")
    other.end(signal.SIGKILL)
    ref = store.put(bytes(50 << 20))
    with pytest.raises(StoreError, match="does not fit") as raised:
        store.put(bytes(50 << 20))
    assert raised.value.code == "full" and len(store.get(ref)) == 50 << 20


def test_a_store_whose_room_is_in_pieces_says_how_large_they_are(store: Store) -> None:
    refs = [store.put(bytes(3 << 20)) for _ in range(20)]
    kept, refs[::2] = refs[1::2], [None] * 10  # ten holes of 3 MiB, and what was free at the end
    store.release()
    with pytest.raises(
        StoreError, match=r"in pieces between values in use, the largest of \d+ bytes.*several smaller.*a larger size"
    ) as raised:
        store.put(bytes(20 << 20))
    said = re.search(r"the largest of (\d+) bytes", str(raised.value))
    assert said and 3 << 20 < int(said[1]) < 8 << 20
    ref = store.put(bytes(int(said[1]) - (1 << 16)))  # nearly all of it: there is a little around a value
    del kept, refs, ref
    store.release()
    store.put(bytes(60 << 20))
    with pytest.raises(StoreError) as raised:
        store.put(bytes(70 << 20))
    assert "pieces" not in str(raised.value)


def test_a_large_value_takes_a_place_that_is_hardly_larger() -> None:
    with Store.create(8 << 20) as store:
        room = store.stats()["capacity_bytes"] - store.stats()["used_bytes"]
        ref = store.put(bytes(room - 4000))
        assert len(store.get(ref)) == room - 4000
        with pytest.raises(StoreError, match="does not fit"):
            store.put(bytes(4000))


def test_the_last_bytes_of_a_full_store_hold_values_like_all_others() -> None:
    """Whatever the size is modulo the arena's unit: one of these values ends where the memory does."""
    for remainder in (0, 24, 48, 57, 60, 63):  # a full store takes its time to say so
        with Store.create(1 << 16, max_objects=1000) as full:
            refs = []
            with pytest.raises(StoreError, match="does not fit"):
                while True:
                    refs.append(full.put(bytes([len(refs) % 251]) * (4000 + remainder)))
            for small in (400, 60):
                with pytest.raises(StoreError, match="does not fit"):
                    while True:
                        refs.append(full.put(bytes([len(refs) % 251]) * (small + remainder % 4)))
            for i, ref in enumerate(refs):
                value = full.get(ref)
                assert value == bytes([i % 251]) * len(value)


def test_what_is_in_use_survives_close(store: Store) -> None:
    here = Store.attach(store.fd)
    other = store.put(np.arange(100_000))
    array, name = here.get(here.ref(other.hex())), other.hex()
    del other
    here.close()
    store.release()
    assert store.reap() == [], "the process is alive"
    filler = [store.put(np.full(100_000, i)) for i in range(20)]
    assert np.array_equal(array, np.arange(100_000)) and store.get(store.ref(name)).size == 100_000
    del filler


def test_a_place_is_given_back(store: Store) -> None:
    for _ in range(600):  # more than there are places
        with Store.attach(store.address) as again:
            again.put(1)


def test_two_hundred_and_fifty_six_take_part_and_no_more(store: Store) -> None:
    others: list[Store] = []
    try:
        with pytest.raises(StoreError, match="256 processes are attached to this store, and no more can be"):
            for _ in range(300):
                others.append(Store.attach(store.address))
        assert len(others) == 255 and others[-1].get(others[-1].ref(others[0].put(7).hex())) == 7
    finally:
        for other in others:
            other.close()


@pytest.mark.parametrize(
    "address, error, words",
    [
        ("/proc/1/fd/0x", FileNotFoundError, "No such file"),
        ("/dev/null", StoreError, "no store, or one of another version"),
    ],
)
def test_what_is_no_store_is_refused(address: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Store.attach(address)


def test_refs_of_another_store_are_refused(store: Store) -> None:
    with Store.create(1 << 20) as another:
        stranger = another.put(1)
        for use in (
            lambda: store.get(stranger),
            lambda: store.wait([stranger]),
            lambda: store.put([stranger]),
            lambda: store.put({"a": {stranger}}),
        ):
            with pytest.raises(StoreError, match="belongs to another one") as raised:
                use()
            assert raised.value.code == "closed"


def test_wrong_calls_say_what_is_right(store: Store) -> None:
    ref = store.put(1)
    for use, words in (
        (lambda: store.wait(ref), "a list of refs"),
        (lambda: store.get((ref,)), "an ObjectRef or a list"),
        (lambda: Store.create("1GB"), "size='1GB'.: must be a whole number"),
        (lambda: Store.create(max_objects=1.5), "max_objects=1.5.: must be a whole number"),
    ):
        with pytest.raises(TypeError, match=words):
            use()
    for use in (ref.future, ref.__await__):
        with pytest.raises(RuntimeError, match=r"store\.get\(ref\)"):
            use()


@pytest.mark.parametrize(
    "sizes, words",
    [
        ({"size": 1000}, "size=1000): must be a whole number, 65,536 to"),
        ({"size": -1}, "size=-1"),
        ({"size": (1 << 45) + 1}, "size="),
        ({"max_objects": 0}, "max_objects=0): must be a whole number, 1 to 2,147,483,647"),
        ({"max_objects": 2**31}, "max_objects="),
    ],
)
def test_sizes_that_cannot_be_are_refused_by_name(sizes: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Store.create(**sizes)


def test_a_store_of_a_few_objects_is_full_with_them() -> None:
    with Store.create(1 << 20, max_objects=3) as small:
        refs = [small.put(i) for i in range(3)]
        with pytest.raises(StoreError, match="larger max_objects") as raised:
            small.put(3)
        assert raised.value.code == "limit"
        del refs[0]
        assert small.get([small.put(7), *refs]) == [7, 1, 2], "a buffered drop makes room at once"


def test_wrong_ids_are_refused(store: Store) -> None:
    for wrong in ("", "12", "x" * 32, "0" * 33, 5):
        with pytest.raises(ValueError, match="32 hexadecimal digits"):
            store.ref(wrong)
    with pytest.raises(LookupError):
        store.ref("0" * 32)
    with Store.create(1 << 20) as another:
        with pytest.raises(LookupError):
            store.ref(another.put(1).hex())


def test_a_forked_child_is_told_to_attach(store: Store) -> None:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            store.put(1)
        except StoreError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader) as pipe:
        assert "Store.attach" in pipe.read()
    assert store.get(store.put(2)) == 2


def test_a_forked_child_lets_go_of_nothing_in_any_of_many_stores() -> None:
    stores = [Store.create(1 << 20) for _ in range(20)]
    refs = [store.put(bytes([i]) * 100_000) for i, store in enumerate(stores)]
    addresses = [store.address for store in stores]
    pid = os.fork()
    if pid == 0:
        refs.clear()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    for i, (store, ref, address) in enumerate(zip(stores, refs, addresses, strict=True)):
        with Store.attach(address) as other:
            assert other.get(other.ref(ref.hex())) == store.get(ref) == bytes([i]) * 100_000
    refs.clear()
    for store in stores:
        store.close()


def test_a_subinterpreter_is_refused() -> None:
    code = textwrap.dedent("""
        import sys
        try:
            import _interpreters as subs  # Python 3.13
        except ImportError:
            import _xxsubinterpreters as subs
        sys.exit(str(subs.run_string(subs.create(), "import cellmesh.objstore._core")))
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    # Python 3.12 and later refuse it by themselves.
    said = re.search("cannot be used in a subinterpreter|does not support loading in subinterpreters", done.stderr)
    assert done.returncode == 1 and said, done.stderr


def test_a_closed_store_says_so() -> None:
    closed = Store.create(1 << 20)
    ref = closed.put(3)
    closed.close()
    closed.close()
    assert repr(closed) == "Store(closed)"
    for use in (lambda: closed.put(1), lambda: closed.get(ref), lambda: closed.address):
        with pytest.raises(StoreError, match="has been closed"):
            use()


def test_the_example_in_the_documentation(tmp_path: Path) -> None:
    writer, reader = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)[:2]
    (tmp_path / "writer.py").write_text(writer)
    (tmp_path / "reader.py").write_text(reader)
    done = subprocess.run(
        [sys.executable, "writer.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "the reader sees (1000, 1000), writable, and answers 499999500000\n"


def test_the_example_in_c(tmp_path: Path) -> None:
    """As a newcomer would build it, with every warning."""
    (source,) = re.findall(r"```c\n(.*?)```", DOCS.read_text(), re.DOTALL)
    (tmp_path / "share.c").write_text(source)
    core = DOCS.parents[1] / "objstore/core"
    sources = [path for path in core.rglob("*.c") if core / "tests" not in path.parents]
    subprocess.run(
        [
            "cc",
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-I",
            core,
            "share.c",
            *sources,
            "-o",
            "share",
        ],
        cwd=tmp_path,
        check=True,
        timeout=100,
    )
    done = subprocess.run(["./share"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=20)
    assert done.stdout == "the reader sees: a text of more bytes than fit into a slot\n"
