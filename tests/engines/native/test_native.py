"""Values of an engine's own clients, where there is no engine."""

from __future__ import annotations

import pytest

import cellmesh
from cellmesh.exceptions import EngineError
from cellmesh.util import engines


def test_a_session_without_an_engine_has_no_such_values() -> None:
    cellmesh.init(num_cpus=1)
    try:
        with pytest.raises(EngineError, match="this session has no engine"):
            engines.from_native(1)
        with pytest.raises(EngineError, match="this session has no engine"):
            engines.to_native(cellmesh.put(1))
    finally:
        cellmesh.shutdown()
