"""What tests of the store share."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from cellmesh.objstore import Store, code_pickles, serialization
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


def through_values(value: Any) -> Any:
    return serialization.unpickle(*serialization.pickle(value))


def through_code(value: Any) -> Any:
    return pickle.loads(code_pickles.dumps(value))


@pytest.fixture(params=[through_values, through_code])
def travelled(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """What another process makes of a value, by each of the two ways on which code travels."""
    return request.param
