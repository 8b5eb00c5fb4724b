"""`rl.serve`: many callers, one batch; a wrong observation is its caller's affair alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import cellmesh as cm
from cellmesh import rl
from cellmesh.rl.models.array_model import ArrayModel

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
BOX = spaces.Box(-9, 9, (1,), np.float32)


def policy(sign: float) -> rl.Policy:
    """Action 1 where sign * what is seen is above 0."""
    return rl.Policy(ArrayModel(np.array([-sign, sign, 0, 0], np.float32), (1, 2)), BOX, spaces.Discrete(2))


@pytest.fixture
def server(session: None) -> Iterator[Any]:
    handle = rl.serve(policy(1.0), max_batch=16)
    yield handle
    cm.kill(handle)


def test_callers_share_batches_and_get_their_own_answers(server: Any) -> None:
    seen = np.random.default_rng(0).choice([-1.0, 1.0], 200)
    assert cm.get([server.act.remote([one]) for one in seen]) == [int(one > 0) for one in seen]
    stats = cm.get(server.stats.remote())
    assert stats["observations"] == 200 and 200 / 16 <= stats["batches"] <= 200
    many = cm.get(server.act_batch.remote(seen[:, None]))  # larger than a batch, and still one
    assert many.tolist() == [int(one > 0) for one in seen]


def test_another_policy_is_served_from_its_update_on(server: Any) -> None:
    assert cm.get(server.act.remote([2.0])) == 1
    cm.get(server.update.remote(policy(-1.0)))
    assert cm.get(server.act.remote([2.0])) == 0


def test_a_wrong_observation_fails_alone(server: Any) -> None:
    right, wrong, other = server.act.remote([1.0]), server.act.remote([1.0, 2.0]), server.act.remote([-1.0])
    with pytest.raises(ValueError, match=r"an observation of shape \(2,\)"):
        cm.get(wrong)
    assert cm.get([right, other]) == [1, 0]


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match=r"serve\('ppo'\): a Policy is served"):
        rl.serve("ppo")
    with pytest.raises(ValueError, match="max_batch=0"):
        rl.serve(policy(1.0), max_batch=0)
