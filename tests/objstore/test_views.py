"""`Client.view`: the encoded bytes of an object, where they lie."""

from __future__ import annotations

import numpy as np
import pytest
from cellmesh.objstore import Store


def used(store: Store) -> int:
    store._client.flush()
    return store._client.stats()["used_bytes"]


@pytest.mark.parametrize("n", [1, 1 << 10, 1 << 20])
def test_a_view_has_the_bytes_of_the_value(store: Store, n: int) -> None:
    values = np.arange(n, dtype=np.uint8)
    with memoryview(store._client.view(store.put(values))) as view:
        assert view.readonly
        assert values.tobytes() in bytes(view)


def test_an_object_stays_as_long_as_there_is_a_view_of_it(store: Store) -> None:
    before, ref = used(store), store.put(np.ones(1 << 20, np.uint8))
    view = memoryview(store._client.view(ref))
    del ref
    assert used(store) >= before + (1 << 20)
    for _ in range(20):  # which find room elsewhere
        store.put(np.zeros(1 << 20, np.uint8))
    assert view[-1 << 10] == 1
    view.release()
    del view
    assert used(store) == before


def test_what_is_no_ref_of_this_store_has_no_view(store: Store) -> None:
    with Store.create(1 << 20) as other:
        for wrong in ("a text", other.put(1)):
            with pytest.raises(TypeError, match="a ref of this client"):
                store._client.view(wrong)
