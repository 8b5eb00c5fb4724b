"""A full store moves objects to disk: they come back whole, or with an error that says why not."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import numpy as np
import pytest
from cellmesh.scheduler.node import offload_dir
from support.waiting import wait_until

import cellmesh

pytestmark = pytest.mark.timeout(60)
STORE, N, SIZE = 64 << 20, 30, 10 << 20  # 300 MB through 64 MB


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def cm(folder: Path) -> Iterator[ModuleType]:
    """A session with a small store that moves objects to `folder`."""
    cellmesh.init(num_cpus=2, object_store_memory=STORE, offload_dir=str(folder))
    yield cellmesh
    cellmesh.shutdown()
    assert not list(folder.glob("*/session-*")), "the files go with the session"


def array(i: int) -> np.ndarray:
    return np.full(SIZE // 8, i, np.int64)


def is_whole(value: np.ndarray, i: int) -> bool:
    return value.shape == (SIZE // 8,) and bool((value == i).all())


def client():
    from cellmesh.session.current import current

    return current().client


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*/session-*/*"))


def fill(cm: ModuleType) -> list[cellmesh.ObjectRef]:
    return [cm.put(array(i)) for i in range(N)]


@cellmesh.remote
def make(i: int) -> np.ndarray:
    return np.full(SIZE // 8, i, np.int64)


@cellmesh.remote
def first_and_last(value: np.ndarray) -> tuple[int, int]:
    return int(value[0]), int(value[-1])


# ---------------------------------------------------------------- there and back
def test_five_times_the_store_comes_back_right(cm: ModuleType, folder: Path) -> None:
    refs = fill(cm)
    assert len(files(folder)) == client().stats()["n_offloaded"] >= N - STORE // SIZE
    for path in [*files(folder), *folder.glob("*"), *folder.glob("*/session-*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(refs))
    assert all(is_whole(cm.get(ref), i) for i, ref in reversed(list(enumerate(refs))))
    assert client().check() == []


def test_results_and_arguments_of_tasks(cm: ModuleType) -> None:
    refs = [make.remote(i) for i in range(N)]
    assert cm.get([first_and_last.remote(ref) for ref in refs], timeout=50) == [(i, i) for i in range(N)]
    assert client().stats()["n_offloaded"] > 0
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(refs))


def test_files_go_with_their_objects(cm: ModuleType, folder: Path) -> None:
    refs = fill(cm)
    assert files(folder)
    del refs
    client().flush()
    wait_until(lambda: not files(folder), 10)
    stats = client().stats()
    assert stats["offloaded_bytes"] == stats["n_offloaded"] == 0


def test_what_somebody_looks_at_stays_where_it_is(cm: ModuleType) -> None:
    ref = cm.put(array(7))
    view = cm.get(ref)[100:200]
    del ref
    other = cm.put(array(8))
    address = cm.get(other).ctypes.data
    kept = cm.get(other)
    refs = fill(cm)
    assert (view == 7).all() and is_whole(kept, 8) and kept.ctypes.data == address
    assert is_whole(cm.get(refs[0]), 0)
    del kept
    more = fill(cm)
    assert is_whole(cm.get(other), 8) and is_whole(cm.get(more[3]), 3)


def test_views_in_a_task_stay_while_others_fill_the_store(cm: ModuleType, flag) -> None:
    @cm.remote
    def hold(value, held, go):
        copy = value.copy()
        held.set()
        go.wait()
        return bool((copy == value).all())

    held, go = flag("held"), flag("go")
    waiting = hold.remote(cm.put(array(5)), held, go)
    held.wait()
    refs = fill(cm)
    go.set()
    assert cm.get(waiting, timeout=30)
    del refs


def test_a_full_store_of_views_is_full(cm: ModuleType) -> None:
    views = [cm.get(cm.put(array(i))) for i in range(STORE // SIZE - 1)]
    with pytest.raises(cm.exceptions.ObjectStoreFullError, match="of at most"):
        for _ in range(3):
            views.append(cm.get(cm.put(array(0))))
    assert all(is_whole(view, i) for i, view in enumerate(views[: STORE // SIZE - 1]))


def test_a_full_store_names_what_is_in_memory_not_what_lies_on_disk(cm: ModuleType) -> None:
    offloaded = fill(cm)
    import __main__

    __main__.in_memory = [cm.get(cm.put(np.zeros(SIZE // 2, "u1"))) for _ in range(10)]
    try:
        with pytest.raises(cm.exceptions.ObjectStoreFullError) as caught:
            cm.put(np.zeros(STORE * 3 // 4, "u1"))
    finally:
        del __main__.in_memory
    rows = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
    assert rows and not any("on disk" in row for row in rows) and "in_memory" in rows[0]
    assert "\non disk: " in str(caught.value) and offloaded


def test_objects_of_more_than_half_the_store_take_turns(cm: ModuleType) -> None:
    refs = [cm.put(np.full(STORE * 6 // 10, i, "u1")) for i in range(3)]
    for i, ref in enumerate(refs):
        value = cm.get(ref)
        assert len(value) == STORE * 6 // 10 and (value == i).all()
        del value


def test_several_threads_and_tasks_want_the_same_object(cm: ModuleType) -> None:
    refs = fill(cm)
    wrong: list[int] = []

    def read() -> None:
        wrong.extend(i for i in range(0, N, 3) if not is_whole(cm.get(refs[i]), i))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    tasks = [first_and_last.remote(refs[i]) for i in range(0, N, 3)]
    for thread in threads:
        thread.join()
    assert not wrong and cm.get(tasks, timeout=30) == [(i, i) for i in range(0, N, 3)]


def test_pickled_values_and_tables(cm: ModuleType) -> None:
    import pandas as pd

    frame = pd.DataFrame({"a": np.arange(100_000), "b": ["x"] * 100_000})
    kept = [cm.put(frame), cm.put({"deep": [array(3)]}), cm.put(b"z" * (1 << 20)), cm.put(["y" * (1 << 20)])]
    fill(cm)
    pd.testing.assert_frame_equal(cm.get(kept[0]), frame)
    assert is_whole(cm.get(kept[1])["deep"][0], 3)
    assert cm.get(kept[2]) == b"z" * (1 << 20) and cm.get(kept[3]) == ["y" * (1 << 20)]


def test_refs_inside_values_keep_what_lies_on_disk(cm: ModuleType) -> None:
    outer = cm.put([cm.put(array(i)) for i in range(N)])
    fill(cm)
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(cm.get(outer)))


def test_large_closures_are_called_by_their_names(cm: ModuleType) -> None:
    data = os.urandom(1 << 20)

    @cm.remote
    def with_much_data() -> int:
        return len(data)

    assert cm.get(with_much_data.remote()) == 1 << 20
    fill(cm)
    assert "with_much_data" in {row["name"] for row in cm.state.list_tasks()}
    assert cm.get(with_much_data.remote()) == 1 << 20


def test_rays_name_for_the_folder(folder: Path) -> None:
    import cellmesh.compat.ray as ray

    ray.init(num_cpus=1, object_store_memory=STORE, object_spilling_directory=str(folder))
    try:
        refs = [ray.put(array(i)) for i in range(10)]
        assert files(folder) and all(is_whole(ray.get(ref), i) for i, ref in enumerate(refs))
    finally:
        ray.shutdown()


# ---------------------------------------------------------------- deaths
def test_workers_killed_while_they_move_objects(cm: ModuleType, folder: Path) -> None:
    kept = [cm.put(array(i)) for i in range(8)]

    @cm.remote(max_retries=-1)
    def churn(seed: int) -> int:
        refs = [cellmesh.put(np.full(SIZE // 8, seed + i, np.int64)) for i in range(10)]
        return sum(int(cellmesh.get(ref)[-1]) for ref in refs) - 10 * seed - 45

    done = [churn.remote(100 * i) for i in range(6)]
    for _ in range(8):
        busy = wait_until(lambda: [w["pid"] for w in client().clients() if w["role"] == "worker" and w["task"]], 10)
        os.kill(busy[0], signal.SIGKILL)
    assert cm.get(done, timeout=50) == [0] * 6
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(kept))
    assert client().check() == []
    del kept, done
    client().flush()
    wait_until(lambda: not files(folder), 10)


# ---------------------------------------------------------------- faults
def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "cut off":
        os.truncate(path, len(data) // 2)
    elif how == "emptied":
        os.truncate(path, 0)
    elif how == "removed":
        path.unlink()
    else:
        at = 8 if how == "flipped in its header" else len(data) - 5
        data[at] ^= 0x10
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("cut off", "cut off"),
        ("emptied", "cut off"),
        ("removed", "No such file"),
        ("flipped", "checksum"),
        ("flipped in its header", "damaged, or another"),
    ],
)
def test_a_bad_file_is_a_lost_object_and_says_why(cm: ModuleType, folder: Path, how: str, why: str) -> None:
    refs = fill(cm)
    path = files(folder)[0]
    number = next(i for i, ref in enumerate(refs) if f"{ref._slot:08x}-{ref._generation:08x}-" in path.name)
    damage(path, how)
    for _ in range(2):
        with pytest.raises(cm.exceptions.ObjectLostError, match=why):
            cm.get(refs[number])
    with pytest.raises(cm.exceptions.ObjectLostError, match=why):
        cm.get(first_and_last.remote(refs[number]), timeout=30)
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(refs) if i != number)
    assert client().check() == []


def test_two_files_that_changed_places(cm: ModuleType, folder: Path) -> None:
    refs = fill(cm)
    one, two, *_ = files(folder)
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    numbers = [i for i, ref in enumerate(refs) if any(f"{ref._slot:08x}-" in path.name for path in (one, two))]
    for number in numbers:
        with pytest.raises(cm.exceptions.ObjectLostError, match="another one"):
            cm.get(refs[number])


def test_a_disk_that_refuses_leaves_everything_in_memory(cm: ModuleType, folder: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    refs = [cm.put(array(i)) for i in range(STORE // SIZE - 1)]
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(cm.exceptions.OutOfDiskError, match=r"no room for its file.*too large") as caught:
            for _ in range(3):
                refs.append(cm.put(array(0)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(caught.value, cm.exceptions.ObjectStoreFullError) and "object store:" in str(caught.value)
    assert not files(folder), "no partial file is left"
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(refs[: STORE // SIZE - 1]))
    assert is_whole(cm.get(cm.put(array(9))), 9), "and it is tried again"


def test_a_folder_that_is_removed_is_made_again(cm: ModuleType, folder: Path) -> None:
    refs = fill(cm)
    offloaded = {row["id"] for row in cm.state.list_objects() if row["place"] == "disk"}
    (own,) = folder.glob("*/session-*")
    for path in folder.glob("*"):
        shutil.rmtree(path)
    more = [cm.put(array(i)) for i in range(N)]
    assert files(folder) and own.stat().st_mode & 0o777 == own.parent.stat().st_mode & 0o777 == 0o700

    def is_held() -> bool:
        try:
            os.close(offload_dir.hold(str(own)))
        except BlockingIOError:
            return True
        return False

    wait_until(is_held, 20, "another session sees that the folder's is alive")
    for i, ref in enumerate(refs):
        if ref.hex() in offloaded:
            with pytest.raises(cm.exceptions.ObjectLostError):
                cm.get(ref)
        else:
            assert is_whole(cm.get(ref), i)
    assert all(is_whole(cm.get(ref), i) for i, ref in enumerate(more))


def test_a_lost_value_is_lost_also_in_a_full_store(cm: ModuleType, folder: Path) -> None:
    refs = fill(cm)
    held = []
    for ref in refs:  # what somebody looks at stays in memory
        if next(row for row in cm.state.list_objects() if row["id"] == ref.hex())["place"] != "disk":
            held.append(cm.get(ref))
    lost = [
        ref for ref in refs if next(row for row in cm.state.list_objects() if row["id"] == ref.hex())["place"] == "disk"
    ]
    for path in files(folder):
        path.unlink()
    with pytest.raises(cm.exceptions.ObjectLostError):
        cm.get(lost[0], timeout=60)


def test_orphans_are_deleted(cm: ModuleType, folder: Path) -> None:
    refs = fill(cm)
    orphan = files(folder)[0].with_name("0000ffff-00000000-ffff")
    orphan.write_bytes(b"half a file")
    stranger = orphan.with_name("notes.txt")
    stranger.write_text("not ours")
    n = len(files(folder)) - 2
    del refs[0]
    client().flush()
    wait_until(lambda: not orphan.exists(), 10)
    assert stranger.exists() and len(files(folder)) >= n - 1


# ---------------------------------------------------------------- bounds and looking
def test_no_more_than_the_limit(folder: Path) -> None:
    with cellmesh.init(num_cpus=1, object_store_memory=STORE, offload_dir=str(folder), offload_limit=100 << 20):
        refs = []
        with pytest.raises(
            cellmesh.exceptions.ObjectStoreFullError, match=f"lie on disk, in {folder}/.* of at most 105 MB"
        ):
            for i in range(N):
                refs.append(cellmesh.put(array(i)))
        assert 100 << 20 >= client().stats()["offloaded_bytes"] > 80 << 20
        assert all(is_whole(cellmesh.get(ref), i) for i, ref in enumerate(refs))


@pytest.mark.parametrize(("largest", "seed"), [(20 << 20, 0), (12 << 20, 1), (2 << 20, 2)])
def test_where_memory_and_disk_are_full_values_come_and_the_limit_is_kept(
    folder: Path, largest: int, seed: int
) -> None:
    limit, random = 60 << 20, Random(seed)
    with cellmesh.init(num_cpus=1, object_store_memory=STORE, offload_dir=str(folder), offload_limit=limit):
        refs, on_disk = [], []
        with pytest.raises(cellmesh.exceptions.ObjectStoreFullError):
            while True:
                refs.append(cellmesh.put(np.full(random.randrange(1 << 14, largest // 8), len(refs))))
        for i in random.choices(range(len(refs)), k=40):
            value = cellmesh.get(refs[i])
            assert (value == i).all() and value.flags.aligned and value.flags.writeable
            del value
            on_disk.append(client().stats()["offloaded_bytes"])
        assert limit // 2 < max(on_disk) <= limit
        results = [first_and_last.remote(ref) for ref in refs[:8]]
        assert cellmesh.get(results, timeout=30) == [(i, i) for i in range(8)]


def test_nothing_goes_to_disk_if_it_must_not(folder: Path) -> None:
    with cellmesh.init(num_cpus=1, object_store_memory=STORE, offload_dir=str(folder), offload_limit=0):
        with pytest.raises(cellmesh.exceptions.ObjectStoreFullError):
            fill(cellmesh)
        assert not list(folder.iterdir())


@pytest.mark.parametrize(
    "bad", [{"offload_limit": -1}, {"offload_limit": "1 GB"}, {"offload_dir": 5}, {"offload_dir": ""}]
)
def test_arguments_without_sense(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        cellmesh.init(**bad)


def test_listings_and_the_message(cm: ModuleType, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refs = fill(cm)
    places = {row["id"]: row["place"] for row in cm.state.list_objects()}
    assert set(places.values()) == {"memory", "disk"} and len(places) == N
    text = cm.state.memory()
    assert f"objects, in {folder}" in text and "on disk" in text
    offloaded = next(ref for ref in refs if places[ref.hex()] == "disk")
    assert client().info(offloaded)["kind"] == "disk"
    said = ""

    def heard() -> int:
        nonlocal said
        said += capsys.readouterr().err
        return said.count("lie on disk now")

    n = wait_until(heard, 20)
    assert str(folder) in said
    more = fill(cm)  # more than twice as much
    wait_until(lambda: heard() > n, 20)
    assert len({ref.hex() for ref in [*refs, *more]}) == 2 * N
