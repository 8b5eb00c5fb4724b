"""What tests of the store share."""
from __future__ import annotations

from collections.abc import Iterator

import pytest

from cellmesh.objstore import Store


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.create(64 << 20) as made:
        yield made
        made.release()
        assert made.check() == []
