"""What tests of the store share."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from cellmesh.objstore import Store
from support.codec_harness import build


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.create(64 << 20) as made:
        yield made
        made.release()
        assert made.check() == []


@pytest.fixture(scope="session")
def codec(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The codec's test module, compiled for this run."""
    return build(tmp_path_factory.mktemp("codec"))
