"""The engine's side of the messages, under a virtual clock: whatever happens, in whatever order, each task is answered
once with what it makes, none runs too often, and nothing is kept in the end."""

from __future__ import annotations

import pytest
from engines.home import story

QUICK = 100


@pytest.mark.parametrize("first", range(0, QUICK, 25))
def test_seeds(first: int) -> None:
    for seed in range(first, first + 25):
        try:
            story(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.slow
def test_a_thousand_seeds() -> None:
    for seed in range(QUICK, 1000):
        story(seed)


def test_the_faults_happen() -> None:
    """Else the seeds would show nothing."""
    homes = [story(seed) for seed in range(30)]
    assert any(home.n_failed for home in homes)
    assert any(home.n_returned for home in homes)
    assert any(n > 1 for home in homes for n in home.runs.values())
    assert any(home.n_ended for home in homes)
    assert any(home.n_not_begun for home in homes)
