"""What tests of the store share."""

from __future__ import annotations

import pickle
import sys
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


@pytest.fixture(params=[False, True], ids=["defined", "gone"])
def annotated(request: pytest.FixtureRequest) -> Callable[[str], tuple[dict[str, Any], Any]]:
    """Runs a cell with the annotation `Later`: its names, and what the annotation is then.

    Python 3.14 evaluates it when somebody asks, and the name need not be there by then.
    """

    def run(cell: str) -> tuple[dict[str, Any], Any]:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile("Later = int\n" + cell, "cell", "exec", dont_inherit=True), names)
        if request.param:
            del names["Later"]
        return names, "Later" if request.param and sys.version_info >= (3, 14) else int

    return run


@pytest.fixture(params=[through_values, through_code])
def travelled(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """What another process makes of a value, by each of the two ways on which code travels."""
    return request.param
