"""The conformance suite on the fake engine, behind a line that loses, doubles and delays: all is as without it."""

from __future__ import annotations

import pytest
from engines.groups.test_conformance_groups import *  # noqa: F403 its tests, which run here
from engines.streams.test_conformance_streams import *  # noqa: F403 as above
from engines.test_conformance import *  # noqa: F403 as above
from engines.test_conformance_actors import *  # noqa: F403 as above

ENGINES = ["fake"]


@pytest.fixture(scope="module")
def fake_address() -> str:
    return "fake+relay:7"
