"""Every type of message between an agent and the head, and what may happen to one: the result is the same, and nothing
is left.

Nothing is acknowledged or sent again on such a connection, and TCP neither loses nor swaps single messages. So each of
the six stands for something that does happen:

request lost              the connection breaks before the message: it and all that follows is lost, until the agent has
                          registered again
reply lost                it breaks behind the message: that is taken in, and what is answered to it is lost
duplicated                the connection is lost behind it, and what was said is said again: by the agent, which
                          registers and asks again, or by the next life of a head that has died; and then the message
                          itself once more, as last words on the lost connection. By a second registration: the
                          connection is made again beneath the agent, see `RegisterFirst`
delayed past the timeout  nothing comes through in that direction for longer than `dead_after_s`, on that one connection
reordered                 the connection is lost, and the message comes behind the first ones on the next
handler still running     the receiver is stopped there, until the other has given the connection up and said all again,
                          or, if that is the head, has been replaced: the message and what follows from the second try
                          are taken in at once

The scenario is `scripted.Script`. A new type of message that is not sent in it fails here by its name.
"""

from __future__ import annotations

import functools
import os
import random
from typing import get_args

import pytest
from cellmesh.scheduler.cluster.messages import FromHead, ToHead
from cluster.simulated.scripted import FAULTS, Script, ToWhom

KINDS: list[ToWhom] = [(way, kind) for way, union in enumerate((ToHead, FromHead)) for kind in get_args(union)]
N_OCCURRENCES = int(
    os.environ.get("CELLMESH_OCCURRENCES", "1")
)  # of a kind of message: so many of the first ones, with every fault
N_SCENARIOS = int(os.environ.get("CELLMESH_MESSAGE_FAULTS", "4"))  # further ones, with FAULTS_EACH
SEED = int(os.environ.get("CELLMESH_SEED", "1"))
FAULTS_EACH = 8


@functools.cache
def well(seed: int) -> Script:
    """The scenario without a fault."""
    script = Script(seed)
    script.run()
    return script


def strike(seed: int, kind: ToWhom, n: int, name: str) -> None:
    """The scenario with that fault at occurrence `n` of a kind of message."""
    script = Script(seed, (kind, n, FAULTS[name]))
    try:
        script.run()
        assert script.has_struck
        assert script.outcome() == well(seed).outcome()
    except AssertionError as error:
        raise AssertionError(
            f"{name}: {kind[1].__name__} {'from' if kind[0] else 'to'} the head, occurrence {n}, seed {seed}: {error}"
        ) from error


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind[1].__name__} {'from' if kind[0] else 'to'} the head")
def test_a_fault_at_a_message_changes_nothing(kind: ToWhom) -> None:
    n = well(0).n_of[kind]
    assert n, f"no {kind[1].__name__} is sent in the scenario: let it play a part in scripted.Script"
    for occurrence in range(min(n, N_OCCURRENCES)):
        for name in FAULTS:
            strike(0, kind, occurrence, name)
    if n // 2 >= N_OCCURRENCES:  # the middle one, with one of them by turns
        strike(0, kind, n // 2, list(FAULTS)[KINDS.index(kind) % len(FAULTS)])


@pytest.mark.parametrize("seed", range(SEED, SEED + N_SCENARIOS))
def test_a_fault_anywhere_in_another_scenario_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    for kind in rng.sample([kind for kind in KINDS if well(seed).n_of[kind]], FAULTS_EACH):
        strike(seed, kind, rng.randrange(well(seed).n_of[kind]), rng.choice(list(FAULTS)))
