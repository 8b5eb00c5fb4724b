"""Pages over an object that nobody has written to are kept, and given to whoever reads what lies there next."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from cellmesh.objstore import Store
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]
SIZE = 1 << 20


def n_mapped() -> int:
    """Private mappings of a segment in this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return sum("memfd:cellmesh" in line and line.split()[1] == "rw-p" for line in lines)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def filled(n: int, size: int = SIZE) -> np.ndarray:
    return np.full(size, n, "u1")


@pytest.fixture
def store() -> Any:
    with Store.create(64 << 20) as store:
        yield store
    assert n_mapped() == 0, "they go with the store"


def test_pages_that_were_only_read_are_given_out_again(store: Store) -> None:
    ref = store.put(filled(1))
    for _ in range(20):
        array = store.get(ref)
        assert array.sum() == SIZE
        del array
    assert n_mapped() == 1
    first, second = store.get(ref), store.get(ref)
    assert address(first) != address(second) and n_mapped() == 2


@pytest.mark.parametrize("place", [0, SIZE // 2, -1])
def test_pages_that_were_written_to_never_come_back(store: Store, place: int) -> None:
    ref = store.put(filled(1))
    for read_before in (False, True):
        for _ in range(5):
            array = store.get(ref)
            assert not read_before or array.sum() == SIZE
            array[place] = 9
            del array
            assert n_mapped() == 0
            assert store.get(ref).sum() == SIZE


def test_what_comes_to_lie_there_later_is_what_they_show(store: Store) -> None:
    addresses = set()
    for n in range(10):
        ref = store.put(filled(n))
        array = store.get(ref)
        addresses.add(address(array))
        assert (array == n).all()
        del array, ref
        store.release()
    assert len(addresses) < 10, "the place is used again, and its pages are"


def test_no_more_than_some_are_kept(store: Store) -> None:
    refs = [store.put(filled(n, 200_000)) for n in range(100)]
    for _ in range(2):
        assert [int(store.get(ref)[-1]) for ref in refs] == list(range(100))
    arrays = [store.get(ref) for ref in refs]
    assert n_mapped() >= 100
    del arrays
    assert 0 < n_mapped() <= 64


def test_who_reads_a_little_of_much_does_not_pay_for_all_of_it(store: Store) -> None:
    """Looks at what is mapped take no longer than mapping it: the pages are given back when there were too many."""
    ref, page = store.put(filled(1, 64 << 20)), os.sysconf("SC_PAGE_SIZE")

    def n_pages() -> int:  # of all that is mapped; read in no time, of which a fifth would go for looks
        return int(Path("/proc/self/statm").read_text().split()[0])

    n_before = n_pages()
    assert (store.get(ref) == 1).all()
    kept = []
    for _ in range(10_000):  # how long a look takes is chance
        assert store.get(ref)[0] == 1
        kept.append(n_pages() - n_before > (32 << 20) // page)
        if not all(kept) and kept[-1]:
            break
    assert kept[0] and not all(kept), "none had to be given back as it was written to"
    assert kept[-1] and n_mapped() == 1, "few pages are looked at in less time than it takes to map them"


def test_pages_are_given_back_when_a_place_is_closed() -> None:
    with Store.create(16 << 20) as store:
        ref = store.put(filled(1))
        with Store.attach(store.address) as other:
            there = other.ref(ref.hex())
            assert store.get(ref).sum() == other.get(there).sum() == SIZE
            assert n_mapped() == 2
        assert n_mapped() == 1, "also while a ref keeps the store's memory"
        del there
        array = store.get(ref)
    assert array.sum() == SIZE and n_mapped() == 1
    del array
    assert n_mapped() == 0


def test_a_forked_child_gives_back_what_it_lets_go_of_and_is_given_nothing(store: Store) -> None:
    ref, other = store.put(filled(1)), store.put(filled(2))
    array = store.get(ref)
    assert store.get(other)[0] == 2
    assert n_mapped() == 2
    child = os.fork()
    if child == 0:
        array[...] = 7
        n_before = n_mapped()
        del array
        os._exit(n_before - n_mapped())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert array.sum() == SIZE
    del array
    assert n_mapped() == 2 and store.get(ref).sum() == SIZE


def test_a_descriptor_that_a_program_closes_costs_reuse_alone(store: Store) -> None:
    ref = store.put(filled(1))
    assert store.get(ref).sum() == SIZE
    (pagemap,) = [fd for fd in os.listdir("/proc/self/fd") if _target(fd).endswith("/pagemap")]
    null = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(null, int(pagemap))
        for _ in range(3):
            array = store.get(ref)
            assert array.sum() == SIZE
            array[0] = 9
            del array
        assert store.get(ref).sum() == SIZE
    finally:
        os.close(null)
        os.close(int(pagemap))


def _target(fd: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except FileNotFoundError:  # of the listing itself
        return ""


def test_objects_that_were_on_disk_in_between(tmp_path: Path) -> None:
    cellmesh.init(num_cpus=1, object_store_memory=32 << 20, offload_dir=str(tmp_path))
    try:
        refs = []
        for n in range(60):  # 60 MB through 32
            refs.append(cellmesh.put(filled(n)))
            array = cellmesh.get(refs[n // 2])
            assert (array == n // 2).all()
            array[n] = 99
            array = cellmesh.get(refs[n])
            assert (array == n).all()
            del array
        assert current().client.stats()["offloaded_bytes"] > 0
        for _ in range(2):
            assert all((cellmesh.get(ref) == n).all() for n, ref in enumerate(refs))
    finally:
        cellmesh.shutdown()


def test_a_worker_that_is_killed_with_pages_of_its_own_leaves_nothing(cm: ModuleType) -> None:
    @cm.remote(max_retries=0)
    def dies(array, kept):
        kept = [array, cm.get(kept)]  # one that it writes to, and one that it only reads
        array += 1
        os.kill(os.getpid(), signal.SIGKILL)

    def used() -> int:
        gc.collect()
        return current().client.stats()["used_bytes"]

    before = used()
    ref, other = cm.put(filled(1)), cm.put(filled(2))
    for _ in range(2):
        with pytest.raises(cm.exceptions.WorkerCrashedError):
            cm.get(dies.remote(ref, [other]))
    assert cm.get(ref).sum() == SIZE and cm.get(other).sum() == 2 * SIZE
    del ref, other
    wait_until(lambda: used() - before < SIZE)


def test_a_file_that_has_the_number_of_the_stores_descriptor_is_left_alone(tmp_path: Path) -> None:
    """As in a program that closes all descriptors, and opens its own."""
    with Store.create(64 << 20) as store:
        ours = [int(fd) for fd in os.listdir("/proc/self/fd") if "memfd:cellmesh" in _target(fd)]
        saved = {fd: os.dup(fd) for fd in ours}
        path = tmp_path / "theirs"
        path.write_bytes(b"theirs")
        theirs = os.open(path, os.O_RDWR)
        try:
            for fd in ours:
                os.dup2(theirs, fd)
            ref = store.put(filled(3, 8 << 20))
            array = store.get(ref)
            assert array.min() == array.max() == 3 and path.read_bytes() == b"theirs"
            array[0] = 9
            assert store.get(ref)[0] == 3
            del array
        finally:
            for fd, kept in saved.items():
                os.dup2(kept, fd)
                os.close(kept)
            os.close(theirs)
