"""One vocabulary of states: in listings, on cards, in the panel, in what the compiled core says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cellmesh.kernel_ext.cards.html import MAGICS, STATES
from cellmesh.kernel_ext.graph import _fold
from cellmesh.kernel_ext.graph.events import EventKind, Status
from cellmesh.kernel_ext.panel.graph_text import FIRST
from cellmesh.kernel_ext.panel_messages import FIRST_REMOTE_WORKER, NO_WORKER, PUT_NAMES, Counts, Kind
from cellmesh.objstore import _core
from cellmesh.scheduler.cluster import messages
from cellmesh.scheduler.local_scheduler import policy

from cellmesh import exit_codes
from cellmesh.compat.ray.util import state as rays
from cellmesh.observe import history, states
from cellmesh.observe.selecting import select
from cellmesh.observe.states import ACTORS, DETAILS, JOBS, MEANING, TASKS, State
from cellmesh.submit import option_values, placement_groups, scheduling_strategies

ROOT = Path(__file__).resolve().parents[3]


def test_each_state_has_a_meaning() -> None:
    assert list(MEANING) == list(State) and TASKS == (
        "waiting",
        "queued",
        "running",
        "finished",
        "failed",
        "cancelled",
        "retrying",
    )


def test_cards_say_what_listings_say() -> None:
    assert {name: words for name, (_, words, _) in STATES.items() if name != "gone"} == {word: word for word in TASKS}
    assert MAGICS.keys() == set(TASKS) and set(FIRST) == set(State)


def test_the_panel_says_it_too() -> None:
    words = (ROOT / "labextension/src/i18n/states.ts").read_text()
    named = words[words.index("function stateName") : words.index("function stateHint")]
    assert dict(re.findall(r"case State\.(\w+):\s+return __\('(\w+)'\)", named)) == {word: word for word in TASKS}
    assert set(Counts.__struct_fields__) == set(TASKS) - {"retrying"}


def test_the_core_says_it_too() -> None:
    assert set(_core.TASK_STATES) - {"free", "held"} == set(TASKS), "free and held are never shown"
    assert ACTORS == _core.ACTOR_STATES and states.OBJECTS == _core.OBJECT_STATES


def test_the_panel_s_fold_counts_them_alike() -> None:
    assert _fold.STATES == TASKS and _fold.KIND_OBJECT == Kind.OBJECT


def test_errors_know_the_core_s_numbers() -> None:
    assert exit_codes.DIED_WITH_ITS_MACHINE == _core.DIED_WITH_NODE and exit_codes.NOT_BEGUN == _core.NOT_BEGUN
    ended = _core.ENDED_BY_KILL, _core.ENDED_BY_ITSELF, _core.ENDED_WITH_HANDLES
    assert tuple(exit_codes.ENDED_ON_PURPOSE) == ended


def test_limits_are_the_segment_s() -> None:
    assert option_values.GRANULARITY * _core.RESOURCE_UNIT == 1
    # The unnamed concurrency group, the node's own pool and the end of a text each take one.
    assert option_values.MAX_GROUPS == _core.MAX_GROUPS - 1
    assert placement_groups.MAX_BUNDLES == messages.MAX_BUNDLES == _core.MAX_POOLS - 1
    assert scheduling_strategies.MAX_WISH_BYTES == _core.STRATEGY_SIZE - 1
    assert policy.MAX_WORKERS < _core.MAX_CLIENTS, "drivers, the scheduler and the agent are clients, too"
    assert FIRST_REMOTE_WORKER == _core.MAX_CLIENTS and NO_WORKER < FIRST_REMOTE_WORKER


def test_enumerations_that_are_spelled_out_are_whole() -> None:
    def of_core(prefix: str, *others: str) -> set[str]:
        return {name.removeprefix(prefix) for name in vars(_core) if name.startswith(prefix) and name not in others}

    status = {"EVENT_OK", "EVENT_ERROR", "EVENT_CANCELLED", "EVENT_CRASHED"}
    puts = {"EVENT_BY_PUT", "EVENT_AS_ARGUMENT", "EVENT_AS_ITEM"}
    format_names = {"EVENT_DTYPE", "EVENT_FORMAT", "EVENT_RUNS_ON"}
    assert {kind.name for kind in EventKind} == of_core("EVENT_", *status, *puts, *format_names)
    assert {f"EVENT_{each.name}" for each in Status} == status
    assert dict(enumerate(PUT_NAMES)) == {
        _core.EVENT_BY_PUT: "put",
        _core.EVENT_AS_ARGUMENT: "argument",
        _core.EVENT_AS_ITEM: "item",
    }
    assert all(kind == getattr(_core, f"EVENT_{kind.name}") for kind in EventKind)


def test_what_has_ended_is_finished_failed_or_cancelled() -> None:
    assert {states.in_listing(end) for end in history.ENDS.values()} == {
        ("finished", ""),
        ("failed", ""),
        ("cancelled", ""),
        ("failed", "crashed"),
    }
    assert states.in_listing("blocked") == ("running", "blocked")
    assert all(kind in State for kind, _ in DETAILS.values())


def test_ray_has_words_of_its_own() -> None:
    assert rays._TASK_STATES.keys() <= {*TASKS, *DETAILS} and rays._ACTOR_STATES.keys() == set(ACTORS)


@pytest.mark.parametrize(
    ("asked", "known", "hint"),
    [
        (
            "RUNING",
            TASKS,
            "there is no state 'RUNING', there are waiting, queued, running, finished, failed, cancelled, retrying",
        ),
        ("runing", TASKS, "; did you mean 'running'?"),
        ("ready", TASKS, "is 'queued'"),
        (3, TASKS, "there is no state 3"),
        ("crashed", TASKS, "'crashed' is a detail of 'failed': ('detail', '=', 'crashed')"),
        ("ended", JOBS, None),
        ("ready", ACTORS, "pending, alive"),
    ],
)
def test_an_unknown_state_in_a_filter_is_an_error_that_lists_the_states(
    asked: object, known: tuple[str, ...], hint: str | None
) -> None:
    filters = [("state", "=", asked)]
    if hint is None:
        assert select([{"state": asked}], filters, 1, known) == [{"state": asked}]
        return
    with pytest.raises(ValueError, match=re.escape(hint)):
        select([], filters, 1, known)
