"""What somebody gets is theirs to change: nobody else sees it, and the stored value stays as it is (decision 122)."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.waiting import wait_until

import cellmesh
from cellmesh.session.current import current

pytestmark = [pytest.mark.timeout(60), pytest.mark.session("shared")]

# In the slot, in band, copied to the heap, on private pages.
SIZES = [1, 20, 1000, 100_000]


@cellmesh.remote
def changed(array: Any) -> Any:
    array += 1
    return array


@cellmesh.remote
def changed_inside(holder: Any) -> Any:
    holder.array += 1
    return holder.array


@cellmesh.remote
class Changer:
    def changed(self, array: Any) -> Any:
        array += 1
        return array

    def is_writable(self, array: Any) -> bool:
        return array.flags.writeable


def used() -> int:
    gc.collect()
    return current().client.stats()["used_bytes"]


@pytest.mark.parametrize("n", SIZES)
def test_a_write_reaches_nobody_else(cm: ModuleType, n: int) -> None:
    sent = np.zeros(n)
    actor = Changer.remote()
    for ref in (cm.put(sent), cm.remote(np.zeros).remote(n)):
        first, second = cm.get([ref, ref])
        first += 5
        assert not second.any() and not cm.get(ref).any()
        for change in (changed, actor.changed):
            assert (cm.get(change.remote(ref)) == 1).all() and not cm.get(ref).any()
    for change in (changed, actor.changed):
        result = change.remote(sent)
        assert (cm.get(result) == 1).all() and not sent.any()
        got = cm.get(result)
        got += 1
        assert (cm.get(result) == 1).all()
    inside = cm.put(SimpleNamespace(array=sent, again=sent))
    assert (cm.get(changed_inside.remote(inside)) == 1).all() and not cm.get(inside).array.any()
    assert (cm.get(changed_inside.remote(SimpleNamespace(array=sent))) == 1).all() and not sent.any()
    holder = cm.get(inside)
    holder.array += 1
    assert holder.again is holder.array


@pytest.mark.parametrize("n", [1000, 100_000])
@pytest.mark.parametrize("dtype", ["M8[ns]", "U4", ">f8", [("at", "M8[us]"), ("is", "f4")], object], ids=str)
def test_arrays_of_every_kind_also_those_that_were_read_only(cm: ModuleType, n: int, dtype: Any) -> None:
    array = np.zeros(n, dtype)
    array.flags.writeable = False
    for ref in (cm.put(array), cm.put(SimpleNamespace(array=array)), cm.put(array.reshape(-1, 10).T)):
        got = getattr(cm.get(ref), "array", cm.get(ref))
        got[...] = np.ones(1, dtype)[0]
        stored = getattr(cm.get(ref), "array", cm.get(ref))
        assert (got.reshape(-1)[0] == np.ones(1, dtype)[0]) and (stored.reshape(-1)[-1] == array[0])


def test_other_ways_of_getting_a_value(cm: ModuleType) -> None:
    @cm.remote
    def items(n):
        for _ in range(2):
            yield np.zeros(n)

    async def awaited(ref):
        return await ref

    for n in SIZES:
        refs = list(items.remote(n))
        for got in (*cm.get(refs), refs[0].result(), asyncio.run(awaited(refs[0])), *cm.get({"a": refs[0]}).values()):
            got += 1
        assert not any(array.any() for array in cm.get(refs))


def test_another_attempt_finds_the_arguments_as_they_were_sent(cm: ModuleType, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    @cm.remote(retry_exceptions=True, max_retries=2)
    def fails_once(by_ref, by_value):
        seen = by_ref.sum() + by_value.sum()
        by_ref += 1
        by_value += 1
        if not tries.exists():
            tries.touch()
            raise OSError
        return seen

    assert cm.get(fails_once.remote(cm.put(np.zeros(100_000)), np.zeros(50_000))) == 0
    assert tries.exists()


def test_a_fork_has_a_copy_of_its_own(cm: ModuleType) -> None:
    array = cm.get(cm.put(np.zeros(100_000)))
    array[0] = 1
    child = os.fork()
    if child == 0:
        right = array[0] == 1 and not array[1:].any()
        array[...] = 7
        os._exit(0 if right and array.sum() == 700_000 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert array.sum() == 1
    array[-1] = 2
    assert array.sum() == 3


def test_neighbours_in_memory_do_not_show_through(cm: ModuleType) -> None:
    """The pages at both ends of an object hold other objects' bytes, too."""
    refs = [cm.put(np.full(20_001, float(i))) for i in range(12)]
    kept = [cm.get(ref) for ref in refs[::2]]
    for array in kept[::2]:
        array += 100
    del refs[1::2], array
    gc.collect()
    for _ in range(12):  # where the others were
        refs.append(cm.put(np.full(20_001, -1.0)))
    wanted = [2 * i + 100 * (i % 2 == 0) for i in range(6)]
    assert [(float(a.min()), float(a.max())) for a in kept] == [(w, w) for w in wanted]
    assert [cm.get(ref).max() for ref in refs[:6]] == [0, 2, 4, 6, 8, 10]


def test_a_page_that_is_written_takes_a_page(cm: ModuleType) -> None:
    def own_bytes() -> int:
        (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")]
        return int(line.split()[1]) << 10

    ref = cm.put(np.zeros(64 << 20, "u1"))
    before = own_bytes()
    array = cm.get(ref)
    array[32 << 20] = 1
    assert array.sum(dtype="u8") == 1 and own_bytes() - before < 8 << 20


def test_an_array_keeps_its_object_and_its_object_goes_with_it(cm: ModuleType) -> None:
    before = used()
    array = cm.get(cm.put(np.zeros(1 << 20)))
    part = array[5:]
    part[0] = 1
    del array
    assert used() - before >= 8 << 20 and part.sum() == 1
    del part
    wait_until(lambda: used() - before < 1 << 20)
    small = cm.get(cm.put(np.zeros(1000)))  # a copy needs nothing
    wait_until(lambda: used() - before < 8000)
    small[0] = 1


def test_thousands_of_arrays_do_not_use_up_the_mappings_of_the_process(cm: ModuleType) -> None:
    ref = cm.put(np.zeros(20_000))
    arrays = [cm.get(ref) for _ in range(16_500)]
    for array in arrays[:: len(arrays) - 1]:
        array += 1
    assert len(Path("/proc/self/maps").read_text().splitlines()) < 20_000
    assert all(array.flags.writeable for array in arrays) and not arrays[1].any() and not cm.get(ref).any()
    del arrays, array
    assert cm.get(ref).sum() == 0


def test_readonly_gives_views_that_all_readers_share(cm: ModuleType) -> None:
    ref = cm.put(np.zeros(100_000))
    first, second = cm.get(ref, readonly=True), cm.get({"a": ref}, readonly=True)["a"]
    assert np.shares_memory(first, second) and not first.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    with pytest.raises(TypeError, match="readonly"):
        cm.get(ref, read_only=True)

    @cm.remote(readonly=True, keep_frames=True)
    def is_writable(array):
        return array.flags.writeable

    for array in (ref, np.zeros(100_000), np.zeros(100)):
        assert cm.get([is_writable.remote(array), is_writable.options(readonly=False).remote(array)]) == [False, True]
        for readonly in (True, False):
            actor = Changer.options(readonly=readonly).remote()
            assert cm.get(actor.is_writable.remote(array)) is not readonly
    with pytest.raises(ValueError, match=r"option readonly='yes' of .*: must be True or False"):
        is_writable.options(readonly="yes")


# ---------------------------------------------------------------- libraries
def both_ways(cm: ModuleType, ref: Any, change: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What becomes of a value by changing it here after `get`, and in a task."""
    here, there = cm.get(ref), cm.get(cm.remote(change).remote(ref))
    return change(here), there


def test_pandas(cm: ModuleType) -> None:
    import pandas as pd

    n = 50_000
    frame = pd.DataFrame(
        {
            "x": np.arange(n) * 1.0,
            "name": pd.Series(["a", "b"] * (n // 2), dtype="str"),
            "thing": pd.Series([{}, None] * (n // 2), dtype=object),
            "count": pd.array([1, None] * (n // 2), dtype="Int64"),
            "kind": pd.Categorical(["u", "v"] * (n // 2)),
            "at": pd.date_range("2024-01-01", periods=n, freq="s", tz="UTC"),
        }
    )

    def change(frame):
        frame.loc[0] = [7.0, "c", "new", 3, "v", frame["at"][9]]
        frame.iloc[1, 0] = -1.0
        frame["x"] += 1
        frame["count"] = frame["count"].fillna(0)
        return frame

    wanted = change(frame.copy(deep=True))
    ref = cm.put(frame)
    for got in both_ways(cm, ref, change):
        pd.testing.assert_frame_equal(got, wanted)
    pd.testing.assert_frame_equal(cm.get(ref), frame)


def test_scipy_and_scikit_learn(cm: ModuleType) -> None:
    from scipy import sparse
    from sklearn.naive_bayes import GaussianNB

    matrix = sparse.random(2000, 500, density=0.1, format="csr", random_state=0)

    def reduce(matrix):
        matrix.data *= -1
        return abs(matrix).max(), matrix.min(), (matrix.sort_indices(), matrix.eliminate_zeros(), matrix.nnz)[-1]

    ref = cm.put(matrix)
    here, there = both_ways(cm, ref, reduce)
    assert here == there == reduce(matrix.copy()) and (cm.get(ref) != matrix).nnz == 0
    x, y = np.random.default_rng(0).normal(size=(30, 30_000)), np.arange(30) % 2

    def fit(model):
        return model.partial_fit(x, y, classes=[0, 1])

    here, there = both_ways(cm, cm.put(fit(GaussianNB())), lambda model: fit(model).theta_.copy())
    assert np.allclose(here, there) and np.allclose(here, fit(fit(GaussianNB())).theta_)


def test_torch_takes_arrays_without_a_warning(cm: ModuleType) -> None:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ref = cm.put(np.zeros(100_000, "f4"))
        tensor = torch.from_numpy(cm.get(ref))
        tensor += 1
    assert tensor.sum() == 100_000 and not cm.get(ref).any()


def test_pillow(cm: ModuleType) -> None:
    from PIL import Image, ImageDraw

    def draw(image: Any) -> Any:
        image.putpixel((0, 0), 9)
        ImageDraw.Draw(image).line((5, 5, 50, 5), fill=7)
        return image.getpixel((0, 0)), image.getpixel((20, 5))

    for image in (Image.new("L", (400, 400)), Image.fromarray(cm.get(cm.put(np.zeros((400, 400), "u1"))))):
        ref = cm.put(image)
        assert both_ways(cm, ref, draw) == ((9, 7), (9, 7))
        assert not np.asarray(cm.get(ref)).any() and not np.asarray(image).any()


def test_arrow_stays_where_it_lies(cm: ModuleType) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    ref = cm.put(pc.add(pa.array(np.arange(1 << 20)), 1))  # whose memory Arrow could write to
    addresses = {cm.get(ref).buffers()[1].address for _ in range(2)}
    assert len(addresses) == 1 and not cm.get(ref).buffers()[1].is_mutable
