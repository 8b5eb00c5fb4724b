"""Which of several failures is told."""

from __future__ import annotations

import pytest

from cellmesh.exceptions import ActorDiedError, GroupMemberDiedError, TaskCancelledError, TaskError
from cellmesh.train import GroupBrokenError, RankDiedError
from cellmesh.train.failures import first_cause


class RaisedInRank0(TaskError, RankDiedError):
    """As `get` raises it."""


DIED, BROKEN, CANCELLED, OWN = ActorDiedError(), GroupBrokenError(), TaskCancelledError(), ValueError()


@pytest.mark.parametrize(
    ("errors", "rank"),
    [
        ({2: BROKEN, 0: OWN, 1: DIED}, 1),
        ({2: GroupMemberDiedError(), 1: OWN}, 2),
        ({2: BROKEN, 0: CANCELLED, 1: OWN, 3: OWN}, 1),
        ({2: BROKEN, 0: CANCELLED}, 2),
        ({0: BROKEN}, 0),
    ],
)
def test_a_death_comes_first_and_who_waited_last(errors: dict[int, Exception], rank: int) -> None:
    assert first_cause(errors) == rank


def test_what_a_rank_says_of_the_death_of_another_is_no_death_of_its_own() -> None:
    assert first_cause({0: RaisedInRank0(rank=1), 1: OWN}) == 1
