"""The graph model: every order and every cut of a legal event stream gives the same graph; snapshots equal deltas."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from cellmesh.kernel_ext.graph._fold import Folder
from cellmesh.kernel_ext.graph.columns import Columns
from cellmesh.kernel_ext.graph.events import EVENT_DTYPE, EventKind, Status
from cellmesh.kernel_ext.graph.model import OBJECT_BYTES, PATIENCE_S, SETTLE_S, Graph
from cellmesh.kernel_ext.graph.row import describe
from cellmesh.kernel_ext.graph.summary import actors_of, counts_of, losses_of, transfers_of, workers_of
from cellmesh.kernel_ext.graph.tables import Actors, Identity
from cellmesh.kernel_ext.graph.view import N_ERRORS_AT_ONCE, GraphView
from cellmesh.kernel_ext.panel_messages import PUT_NAMES, Kind, State, decode, encode
from hypothesis import given, settings
from hypothesis import strategies as st
from support.panel_replica import Replica

from cellmesh.session.unfetched_errors import KnownErrors

PUT = 1 << 63


class Names:
    """A directory in which every slot has a function of its number."""

    def function(self, slot: int, generation: int) -> tuple[str, str] | None:
        return ("function", f"f{slot}") if slot < 90 else None

    def cell(self, number: int) -> tuple[str, str]:
        return f"In [{number}]", f"id{number}"

    def actor(self, index: int) -> Identity:
        return Identity(f"actor{index}") if index < 100 else Identity()


def event(kind: EventKind, t: int, seq: int, **fields: int) -> np.ndarray:
    record = np.zeros(1, EVENT_DTYPE)
    for name, value in {"t": t, "seq": seq, "kind": kind, **fields}.items():
        record[name] = value
    return record


def wide(number: int) -> dict[str, int]:
    """A 64-bit number in the fields a and b."""
    return {"a": number & 0xFFFFFFFF, "b": number >> 32}


@dataclass
class Task:
    """What a simple reading of the stream, one event after the other, makes of a task or object."""

    function: str
    cell: int
    kind: Kind
    parent: int = 0
    state: State = State.WAITING
    worker: int = 255
    started: int | None = None
    called: int | None = None
    finished: int | None = None
    size: int | None = None
    actor: int = 0
    needs: set[int] = field(default_factory=set)


@st.composite
def streams(draw: st.DrawFn, n_steps: int = 40) -> tuple[list[np.ndarray], dict[int, Task]]:
    """A legal event stream in the order of time, and the tasks that it tells of."""
    records: list[np.ndarray] = []
    tasks: dict[int, Task] = {}
    small_puts: dict[int, Task] = {}
    actors: list[int] = []

    def emit(kind: EventKind, seq: int, **fields: int) -> int:
        records.append(event(kind, 1000 * (len(records) + 1), seq, **fields))
        return 1000 * len(records)

    def submit(number: int, function: int, cell: int, actor: int) -> Task:
        emit(EventKind.SUBMITTED, number, a=function, b=cell, c=actor)
        task = tasks[number] = Task(f"f{function}", cell, Kind.ACTOR_CALL if actor else Kind.TASK, actor=actor)
        if running := [k for k, other in tasks.items() if other.state == State.RUNNING and k != number]:
            if draw(st.booleans()):
                task.parent = draw(st.sampled_from(running))
                emit(EventKind.PARENT, number, **wide(task.parent))
        candidates = [k for k in tasks if k != number] + list(small_puts)
        for needed in draw(st.lists(st.sampled_from(candidates), max_size=3, unique=True)) if candidates else []:
            emit(EventKind.DEPENDS, number, **wide(needed))
            task.needs.add(needed)
            if needed in small_puts:
                tasks[needed] = small_puts.pop(needed)
        return task

    for number in range(1, 1 + draw(st.integers(1, n_steps))):
        step = draw(st.sampled_from("submit submit put actor start start call finish retry cancel".split()))
        cell = draw(st.integers(0, 3))
        if step == "submit":
            submit(number, draw(st.integers(1, 4)), cell, draw(st.sampled_from([0, 0, *[a + 1 for a in actors]])))
        elif step == "actor":
            task = submit(number, 9, cell, 0)
            emit(EventKind.ACTOR_CREATED, number, a=len(actors))
            emit(EventKind.ACTOR_STATE, 0, a=len(actors), b=draw(st.integers(0, 3)))
            task.kind, task.actor = Kind.ACTOR_CREATION, len(actors) + 1
            actors.append(len(actors))
        elif step == "put":
            size = draw(st.sampled_from([8, OBJECT_BYTES + 1]))
            why = draw(st.sampled_from([0, 1, 2, 9]))  # any process can write any number
            time = emit(EventKind.PUT, PUT | number, b=cell, c=size, d=why)
            made = Task(PUT_NAMES[min(why, 2)], cell, Kind.OBJECT, 0, State.FINISHED, 255, time, None, time, size)
            (tasks if size > OBJECT_BYTES else small_puts)[PUT | number] = made
        else:
            allowed = {
                "start": (State.WAITING, State.RETRYING),
                "finish": (State.RUNNING,),
                "retry": (State.RUNNING,),
                "call": (State.RUNNING,),
                "cancel": (State.WAITING, State.RETRYING),
            }[step]
            waiting = [k for k, task in tasks.items() if task.state in allowed]
            if not waiting:
                continue
            chosen = draw(st.sampled_from(waiting))
            task = tasks[chosen]
            if step == "start":
                task.worker = draw(st.integers(2, 5))
                task.started = emit(EventKind.STARTED, chosen, client=task.worker, b=100 + task.worker)
                task.state, task.called = State.RUNNING, None
            elif step == "call":
                task.called = emit(EventKind.CALLED, chosen, client=task.worker)
            elif step == "retry":
                emit(EventKind.RETRIED, chosen)
                task.state = State.RETRYING
            else:
                status = Status.CANCELLED if step == "cancel" else draw(st.sampled_from(Status))
                task.size = draw(st.integers(0, 1000))
                task.finished = emit(EventKind.FINISHED, chosen, b=status, c=task.size)
                task.state = {Status.OK: State.FINISHED, Status.CANCELLED: State.CANCELLED}.get(status, State.FAILED)
    for task in tasks.values():
        if task.state == State.WAITING and not any(
            tasks[k].state not in (State.FINISHED, State.FAILED, State.CANCELLED) for k in task.needs
        ):
            task.state = State.QUEUED
    return records, tasks


@st.composite
def cuts(draw: st.DrawFn, items: list[np.ndarray]) -> list[np.ndarray]:
    """The records in batches of any sizes."""
    places = sorted(draw(st.sets(st.integers(1, max(1, len(items) - 1)), max_size=8)))
    return [
        np.concatenate(items[begin:end])
        for begin, end in zip([0, *places], [*places, len(items)], strict=True)
        if items[begin:end]
    ]


def tasks_of(graph: Graph) -> dict[int, Task]:
    """What the graph says, in the terms of the simple reading."""
    found = {}
    numbers = graph.entries.seq[graph.order]
    sources, targets = graph.edges.source[: graph.edges.n], graph.edges.target[: graph.edges.n]
    for row, number in enumerate(numbers.tolist()):
        facts = describe(graph, row)
        assert graph.row_of(number) == row
        ticks = {
            name: None if facts[name] is None else round(facts[name] * 1e9)
            for name in ("started", "called", "finished")
        }
        found[number] = Task(
            facts["function"],
            facts["cell"],
            Kind[facts["kind"].upper()],
            int(numbers[facts["parent"]]) if facts["parent"] is not None else 0,
            State[facts["state"].upper()],
            255 if facts["worker"] is None else facts["worker"],
            ticks["started"],
            ticks["called"],
            ticks["finished"],
            None if facts["size"] is None else int(facts["size"]),
            0 if facts["actor"] is None else facts["actor"] + 1,
            set(numbers[sources[targets == row]].tolist()),
        )
    return found


def names_to_actors(graph: Graph, tasks: dict[int, Task]) -> dict[int, Task]:
    """Actor numbers depend on the order of arrival; their names do not."""
    labels = actors_of(graph)
    for task in tasks.values():
        if task.actor:
            task.actor = int(labels[task.actor - 1].name.removeprefix("actor")) + 1
    return tasks


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_order_and_any_cutting_of_a_stream_gives_the_same_graph(data: st.DataObject) -> None:
    records, tasks = data.draw(streams())
    order = data.draw(st.permutations(range(len(records))))
    graph = Graph(Names())
    for batch in data.draw(cuts([records[i] for i in order])):
        graph.fold(batch)
    graph.refresh(10.0)
    assert names_to_actors(graph, tasks_of(graph)) == tasks
    counts = counts_of(graph)
    states = [task.state for task in tasks.values() if task.kind != Kind.OBJECT]
    assert counts.running == states.count(State.RUNNING)
    assert counts.failed == states.count(State.FAILED)
    assert counts.waiting + counts.queued == sum(states.count(s) for s in (State.WAITING, State.QUEUED, State.RETRYING))
    assert graph.n_tasks == len(states) and graph.is_settled()


def feed(view: GraphView, replica: Replica, now_s: float, budget: int) -> bool:
    message = view.next(now_s, budget)
    if message is None:
        return False
    data, buffers = encode(*message)
    assert sum(len(buffer) for buffer in buffers) <= max(budget, 28 + 31 + 8 + 16)
    replica.apply(*decode(data, [bytes(buffer) for buffer in buffers]))
    return True


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_snapshot_equals_the_sum_of_deltas(data: st.DataObject) -> None:
    records, tasks = data.draw(streams())
    graph = Graph(Names(), seconds_per_tick=1e-6)  # a millisecond between events: some are not settled yet
    early, early_replica = GraphView(graph), Replica()
    budgets = st.sampled_from([1, 100, 400, 10_000])
    for batch in data.draw(cuts(records)):
        graph.fold(batch)
        early.mark(graph.refresh(0.0))
        for _ in range(data.draw(st.integers(0, 2))):
            feed(early, early_replica, graph.newest * 1e-6, data.draw(budgets))
        if early_replica.header is not None and data.draw(st.integers(0, 9)) == 0:
            early.restart()
    early.mark(graph.refresh(10.0))
    late, late_replica = GraphView(graph), Replica()
    while feed(early, early_replica, 10.0, data.draw(budgets)):
        pass
    while feed(late, late_replica, 10.0, data.draw(budgets)):
        pass
    assert early_replica.content() == late_replica.content()
    assert early_replica.header is not None and early_replica.header.behind == 0
    assert len(early_replica.rows) == graph.n_rows == len(tasks)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_refreshing_within_a_slight_disorder_changes_no_row(data: st.DataObject) -> None:
    records, _ = data.draw(streams())
    whole = Graph(Names())
    for record in records:
        whole.fold(record)
    whole.refresh(10.0)
    # Disorder far below SETTLE_S: each record may be late by up to 5 places of a microsecond each.
    late = data.draw(st.lists(st.integers(0, 5), min_size=len(records), max_size=len(records)))
    order = [records[i] for i in sorted(range(len(records)), key=lambda i: i + late[i])]
    graph = Graph(Names())
    for batch in data.draw(cuts(order)):
        graph.fold(batch)
        graph.refresh(0.0)
    graph.refresh(10.0)
    assert names_to_actors(graph, tasks_of(graph)) == names_to_actors(whole, tasks_of(whole))
    assert (graph.entries.seq[graph.order] == whole.entries.seq[whole.order]).all()


def fold(graph: Graph, *records: np.ndarray) -> None:
    graph.fold(np.concatenate(records))


def test_a_task_is_no_row_before_it_is_settled() -> None:
    graph = Graph(Names())
    fold(graph, event(EventKind.SUBMITTED, 1_000_000, 1, a=1))
    graph.refresh(0.001 + SETTLE_S / 2)
    assert graph.n_rows == 0 and not graph.is_settled()
    graph.refresh(0.001 + SETTLE_S)
    assert graph.n_rows == 1 and graph.is_settled()


def test_a_task_whose_submission_was_lost_is_shown_without_a_function_and_an_unseen_one_is_not() -> None:
    graph = Graph(Names())
    fold(graph, event(EventKind.STARTED, 1, 7, client=3, b=99), event(EventKind.DEPENDS, 2, 7, **wide(5)))
    graph.n_dropped += 40
    graph.refresh(PATIENCE_S / 2)
    assert graph.n_rows == 0
    graph.refresh(2 * PATIENCE_S)
    assert [describe(graph, row)["seq"] for row in range(graph.n_rows)] == [7]
    facts = describe(graph, 0)
    assert facts["function"] == "?" and facts["state"] == "running" and facts["pid"] == 99
    assert graph.edges.n == 0 and graph.is_settled()
    fold(graph, event(EventKind.SUBMITTED, 1, 5, a=2))  # very late, but here it is
    graph.refresh(2 * PATIENCE_S)
    assert describe(graph, 1)["function"] == "f2"


def test_a_lost_end_is_reconciled_with_what_the_segment_says() -> None:
    graph = Graph(Names())
    for number in (1, 2, 3):
        fold(graph, event(EventKind.SUBMITTED, number, number, a=1), event(EventKind.STARTED, number + 1, number))
    graph.refresh(1.0)
    graph.reconcile(np.array([2], np.uint64), 0.5)
    fold(graph, event(EventKind.SUBMITTED, 900_000_000, 4, a=1))
    graph.refresh(2.0)
    assert [describe(graph, row)["state"] for row in range(4)] == ["finished", "running", "finished", "queued"]
    fold(graph, event(EventKind.FINISHED, 999, 3, b=Status.ERROR))  # the event was only late
    graph.refresh(2.0)
    assert describe(graph, 2)["state"] == "failed"


def test_what_runs_on_another_machine_is_sent_begins_ends_and_comes_home() -> None:
    graph = Graph(Names(), seconds_per_tick=1.0)
    there = 0xABCDEF01
    fold(graph, event(EventKind.SUBMITTED, 1_000, 1, a=1), event(EventKind.STARTED, 2_000, 1, client=9, b=0, c=there))
    graph.refresh(1.0)
    told = describe(graph, 0)
    assert (told["state"], told["sent"], told["started"], told["pid"], told["pid_there"]) == (
        "queued",
        2000,
        None,
        None,
        0,
    )
    fold(graph, event(EventKind.RAN, 5_000, 1, client=9, a=77, b=1_000 >> 2, c=2**32 - 1, d=2))
    graph.refresh(1.0)
    told = describe(graph, 0)
    assert told["state"] == "running"
    assert (told["sent"], told["started"], told["ended"], told["pid"], told["pid_there"]) == (
        2000,
        4000,
        None,
        None,
        77,
    )
    fold(
        graph,
        event(EventKind.RAN, 9_000, 1, client=9, a=77, b=5_000, c=1_000),
        event(EventKind.FINISHED, 9_000, 1, client=9),
    )
    graph.refresh(1.0)
    told = describe(graph, 0)
    assert (told["started"], told["ended"], told["finished"], told["state"]) == (4000, 8000, 9000, "finished")
    assert 9 not in workers_of(graph), "a machine is no worker"
    replica, view = Replica(), GraphView(graph)
    feed(view, replica, 1.0, 10_000)
    assert replica.states[0][1:4] == (graph.remote.workers.index((1, 77)) + 256, 4000, 9000) and replica.remote[0] == (
        2000,
        8000,
    )
    assert replica.labels["workers"][replica.states[0][1]].node == 1
    fold(
        graph,
        event(EventKind.SUBMITTED, 10_000, 2, a=1),
        event(EventKind.STARTED, 11_000, 2, client=9, c=there),
        event(EventKind.RAN, 12_000, 2, client=9, a=78, b=500, c=2**32 - 1),
    )
    graph.refresh(2.0)
    message = view.next(2.0, 10_000)
    assert message is not None and [(label.pid, label.node) for _, label in message[0].workers] == [(78, 1)], (
        "the others were told before"
    )


def test_a_lost_machine_takes_an_attempt_along() -> None:
    graph = Graph(Names(), seconds_per_tick=1.0)
    fold(
        graph,
        event(EventKind.SUBMITTED, 1_000, 1, a=1),
        event(EventKind.STARTED, 2_000, 1, client=9, c=5),
        event(EventKind.RAN, 4_000, 1, client=9, a=77, b=1_000, c=2**32 - 1),
        event(EventKind.RETRIED, 6_000, 1, a=1, c=5, d=1),
        event(EventKind.STARTED, 7_000, 1, client=3, b=4711),
        event(EventKind.FINISHED, 9_000, 1, client=3),
        event(EventKind.SUBMITTED, 10_000, 2, a=1),
        event(EventKind.STARTED, 11_000, 2, client=9, c=5),
        event(EventKind.RETRIED, 12_000, 2, a=1, c=5),
    )  # it had not begun: nothing was lost
    graph.refresh(1.0)
    assert (describe(graph, 0)["node"], describe(graph, 0)["pid"], describe(graph, 0)["started"]) == (0, 4711, 7000)
    (loss,) = losses_of(graph, 0, 10)
    assert (loss.row, workers_of(graph)[loss.worker].pid, loss.sent, loss.began, loss.lost) == (0, 77, 2000, 3000, 6000)
    assert losses_of(graph, 1, 10) == []


def test_errors_are_told_with_their_rows_and_once() -> None:
    graph, errors = Graph(Names(), seconds_per_tick=1e-3), KnownErrors()
    replica, view = Replica(), GraphView(graph)

    def told(now_s: float) -> list[tuple[int, str]]:
        message = view.next(now_s, 10_000, errors=errors)
        if message is None:
            return []
        replica.apply(*decode(*encode(*message)))
        return message[0].errors

    errors.note(7, "ValueError: x\nmore of it")  # it may come before the events do
    assert told(0.5) == []
    fold(graph, event(EventKind.SUBMITTED, 1_000, 7, a=1), event(EventKind.FINISHED, 2_000, 7, b=Status.ERROR))
    graph.refresh(3.0)
    assert told(3.0) == [(0, "ValueError: x")]
    assert view.next(3.0, 10_000, errors=errors) is None, "nothing is new"
    errors.note(7, "ValueError: x\nmore of it")
    errors.note(99, "of a task without a row")
    assert view.next(3.0, 10_000, errors=errors) is None
    errors.note(7, "KeyError: after a retry")
    assert told(4.0) == [(0, "KeyError: after a retry")]
    view.restart()
    assert told(4.0) == [(0, "KeyError: after a retry")], "who joins later hears it too"


def test_many_errors_are_told_in_several_messages() -> None:
    graph, errors, n = Graph(Names(), seconds_per_tick=1e-3), KnownErrors(), N_ERRORS_AT_ONCE + 5
    fold(graph, *(event(EventKind.SUBMITTED, 1_000 + i, i, a=1) for i in range(1, n + 1)))
    for i in range(1, n + 1):
        errors.note(i, f"ValueError: {i}")
    graph.refresh(9.0)
    view, found = GraphView(graph), []
    while message := view.next(9.0, 1 << 20, errors=errors):
        assert len(message[0].errors) <= N_ERRORS_AT_ONCE
        found += message[0].errors
        assert (message[0].behind > 0) == (len(found) < n)
    assert found == [(i - 1, f"ValueError: {i}") for i in range(1, n + 1)]
    snapshot = GraphView(graph).next(9.0, errors=errors)
    assert snapshot is not None and len(snapshot[0].errors) == n, "a recording is one message"


def test_a_task_is_ready_when_the_last_of_its_inputs_is_there() -> None:
    graph = Graph(Names(), seconds_per_tick=1e-3)
    fold(
        graph,
        event(EventKind.SUBMITTED, 1_000, 1, a=1),
        event(EventKind.SUBMITTED, 1_100, 2, a=1),
        event(EventKind.SUBMITTED, 1_200, 3, a=1),
        event(EventKind.DEPENDS, 1_200, 3, **wide(1)),
        event(EventKind.DEPENDS, 1_200, 3, **wide(2)),
        event(EventKind.FINISHED, 5_000, 1),
        event(EventKind.FINISHED, 4_000, 2),
    )
    graph.refresh(9.0)
    assert (describe(graph, 0)["ready"], describe(graph, 2)["ready"]) == (1.0, 5.0)


def test_values_travel() -> None:
    graph = Graph(Names(), seconds_per_tick=1.0)
    fold(
        graph,
        event(EventKind.SUBMITTED, 1_000, 1, a=1),
        event(EventKind.TRANSFER, 2_000, 1, client=9, a=5, b=7, d=1, c=3),
    )
    graph.refresh(1.0)
    ((number, travels),) = transfers_of(graph, 0, 10)[0]
    assert (number, travels.row, travels.node, travels.comes, travels.size, travels.ended) == (
        0,
        0,
        1,
        True,
        7 + (1 << 32),
        None,
    )
    fold(graph, event(EventKind.TRANSFERRED, 3_000, 1, client=9, a=5, b=1, c=3))
    ((_, arrived),) = transfers_of(graph, 1, 10)[0]
    assert (arrived.began, arrived.ended, arrived.complete) == (2000, 3000, True)


def test_beyond_the_bound_tasks_are_counted_only() -> None:
    graph = Graph(Names(), n_rows_max=10)
    numbers = range(1, 31)
    fold(
        graph,
        *(event(EventKind.SUBMITTED, n, n, a=1) for n in numbers),
        *(event(EventKind.DEPENDS, 100 + n, n, **wide(n - 1)) for n in numbers[1:]),
    )
    fold(graph, *(event(EventKind.STARTED, 200 + n, n, client=1) for n in range(1, 26)))
    fold(graph, *(event(EventKind.FINISHED, 300 + n, n, b=n % 2) for n in range(1, 21)))
    graph.refresh(1.0)
    counts = counts_of(graph)
    assert graph.n_rows == 10 and graph.n_aggregated == 20 and graph.n_tasks == 30 and graph.edges.n == 9
    assert (counts.queued, counts.running, counts.finished, counts.failed) == (5, 5, 10, 10)


def test_numbers_without_sense_do_no_harm() -> None:
    graph = Graph(Names())
    fold(graph, event(EventKind.SUBMITTED, 1, 5, a=1))
    fold(
        graph,
        event(EventKind.SUBMITTED, 2, 2**62, a=95),
        event(EventKind.DEPENDS, 3, 5, **wide(2**61)),
        event(EventKind.FINISHED, 4, 2**40, b=77),
        event(99, 5, 6),
        event(EventKind.STARTED, 1, 5, client=255),
    )
    graph.refresh(1.0)
    assert graph.n_rows == 1 and graph.n_aggregated == 1
    with pytest.raises(IndexError, match="no row 1"):
        describe(graph, 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            *[st.sampled_from([0, 1, 2, 5, 2**16 - 1, 2**32 - 1])] * 4,
            st.integers(0, 18),
            st.integers(0, 255),
            *[st.sampled_from([0, 1, 2, 3, 2**24, 2**40, PUT, PUT | 1, PUT | 2, 2**64 - 1])] * 2,
        ),
        max_size=60,
    )
)
def test_records_of_any_content_do_no_harm(contents: list[tuple[int, ...]]) -> None:
    graph = Graph(Names(), n_rows_max=8)
    for a, b, c, d, kind, client, t, seq in contents:
        graph.fold(event(kind, t, seq, a=a, b=b, c=c, d=d & 0xFFFF, client=client))
    graph.refresh(1.0)
    assert graph.entries.n <= 8 and graph.n_rows <= graph.entries.n and graph.edges.n <= 32
    assert len([describe(graph, row) for row in range(graph.n_rows)]) == graph.n_rows
    assert counts_of(graph) and workers_of(graph) is not None and actors_of(graph) is not None


def test_more_edges_than_there_is_room_for_are_dropped_and_hold_nobody_up() -> None:
    graph = Graph(Names(), n_rows_max=6)
    fold(graph, *(event(EventKind.SUBMITTED, n, n, a=1) for n in range(1, 7)))
    fold(graph, *(event(EventKind.DEPENDS, 10 + i, 1 + i % 5, **wide(6)) for i in range(50)))
    graph.refresh(1.0)
    assert graph.edges.n == 5 and describe(graph, 0)["state"] == "waiting"
    fold(graph, event(EventKind.STARTED, 100, 6), event(EventKind.FINISHED, 101, 6))
    graph.refresh(1.0)
    assert [describe(graph, row)["state"] for row in range(5)] == ["queued"] * 5


def test_columns_that_do_not_fit_are_named() -> None:
    columns = Columns(8, seq=(np.uint64, 0)).arrays
    with pytest.raises(TypeError, match="column seen is missing"):
        Folder(1, **columns)
    with pytest.raises(ValueError, match="column seen must have aligned items of 8 bytes"):
        Folder(1, **columns, seen=np.zeros(8, np.uint32))
    with pytest.raises(ValueError, match=r"column seen .* as many as the others of its group \(8\)"):
        Folder(1, **columns, seen=np.zeros(9, np.uint64))
    with pytest.raises(ValueError, match="whole, aligned records of 32 bytes"):
        Graph(Names())._folder.fold(bytes(33), 0)


def test_an_actor_slot_that_is_used_again_is_another_actor() -> None:
    graph = Graph(Names())
    fold(
        graph,
        event(EventKind.SUBMITTED, 10, 1, a=9),
        event(EventKind.ACTOR_CREATED, 11, 1, a=4),
        event(EventKind.ACTOR_STATE, 12, 0, a=4, b=1),
        event(EventKind.SUBMITTED, 13, 2, a=2, c=5),
        event(EventKind.ACTOR_STATE, 14, 0, a=4, b=3),
    )
    fold(
        graph,
        event(EventKind.SUBMITTED, 20, 3, a=8),
        event(EventKind.ACTOR_CREATED, 21, 3, a=4),
        event(EventKind.SUBMITTED, 22, 4, a=2, c=5),
        event(EventKind.ACTOR_STATE, 23, 0, a=4, b=1),
    )
    graph.refresh(1.0)
    assert [describe(graph, row)["actor"] for row in range(4)] == [0, 0, 1, 1]
    assert [(label.cls, label.state) for label in actors_of(graph).values()] == [("f9", "dead"), ("f8", "alive")]


def test_workers_are_busy_blocked_idle_dead() -> None:
    graph = Graph(Names())
    for number, worker in ((1, 2), (2, 3), (3, 4), (4, 5)):
        fold(
            graph,
            event(EventKind.SUBMITTED, number, number, a=1),
            event(EventKind.STARTED, 10 + number, number, client=worker, b=100 + worker),
        )
    fold(
        graph,
        event(EventKind.BLOCKED, 20, 2, client=3),
        event(EventKind.FINISHED, 21, 3),
        event(EventKind.WORKER_DIED, 22, 0, a=5, b=9),
    )
    graph.refresh(1.0)
    assert {k: (label.pid, label.state) for k, label in workers_of(graph).items()} == {
        2: (102, "busy"),
        3: (103, "blocked"),
        4: (104, "idle"),
        5: (105, "dead"),
    }


def test_a_redefined_function_keeps_its_number() -> None:
    class SameName(Names):
        def function(self, slot: int, generation: int) -> tuple[str, str] | None:
            return "function", "add"

    graph = Graph(SameName())
    fold(graph, *(event(EventKind.SUBMITTED, n, n, a=n, d=n) for n in (1, 2, 3)))
    assert graph.functions == ["?", "add"]


def test_a_clock_that_is_known_better_later_does_not_change_the_order() -> None:
    graph = Graph(Names(), ticks0=1000, seconds_per_tick=1e-6)
    fold(graph, event(EventKind.SUBMITTED, 2000, 1, a=1), event(EventKind.STARTED, 10_000, 1))
    graph.correct_clock(0.9e-6, 0.0091)
    fold(graph, event(EventKind.FINISHED, 10_001, 1))
    graph.refresh(1.0)
    facts = describe(graph, 0)
    assert facts["state"] == "finished" and facts["finished"] == pytest.approx(9001 * 0.9e-6)


def test_a_clock_that_is_right_within_what_is_seen_stays() -> None:
    graph = Graph(Names(), ticks0=1000, seconds_per_tick=1e-6)
    fold(graph, event(EventKind.SUBMITTED, 1_001_000, 1, a=1))
    graph.refresh(1.1)
    graph.correct_clock(1.00005e-6, now_s=1.0)
    assert describe(graph, 0)["submitted"] == pytest.approx(1.0, abs=1e-9)
    graph.correct_clock(1.00005e-6, now_s=10.0)  # by now it is 500 us
    assert describe(graph, 0)["submitted"] == pytest.approx(1.00005, abs=1e-9)


def test_the_end_of_a_session_is_the_end_of_what_ran() -> None:
    graph = Graph(Names())
    fold(
        graph,
        event(EventKind.SUBMITTED, 10, 1, a=9),
        event(EventKind.ACTOR_CREATED, 11, 1, a=0),
        event(EventKind.STARTED, 12, 1, client=2, b=50),
        event(EventKind.FINISHED, 13, 1),
        event(EventKind.SUBMITTED, 14, 2, a=1),
        event(EventKind.STARTED, 15, 2, client=3, b=51),
    )
    graph.refresh(1.0)
    graph.end(2.0)
    graph.refresh(2.0)
    assert [describe(graph, row)["state"] for row in range(2)] == ["finished", "cancelled"]
    assert counts_of(graph).running == 0 and actors_of(graph)[0].state == "dead"
    assert {label.state for label in workers_of(graph).values()} == {"dead"}


class Compared(int):
    """A time that counts how often times are compared."""

    n = 0

    def __lt__(self, other: int) -> bool:
        Compared.n += 1
        return int(self) < int(other)

    def __le__(self, other: int) -> bool:
        Compared.n += 1
        return int(self) <= int(other)


def test_the_news_of_an_actor_cost_the_same_after_many_that_had_its_slot() -> None:
    actors, n_compared = Actors(), list[int]()
    for at in range(10, 610, 10):
        before = Compared.n
        number = actors.created(3, Compared(at), -1, Identity())
        for later, state in enumerate(("pending", "alive", "dead")):
            actors.changed(3, Compared(at + later), state)
        assert actors.by_number[number].state == "dead"
        n_compared.append(Compared.n - before)
    assert len(actors.by_number) == 60 and n_compared[-1] < 1.2 * n_compared[30]
    actors.changed(3, Compared(4020), "pending")
    actors.created(3, Compared(4015), -1, Identity())
    assert [actor.state for actor in actors.by_number[-2:]] == ["dead", "pending"]


def test_an_actor_that_crashed_is_told_from_one_that_was_ended() -> None:
    graph = Graph(Names())
    for actor, how in ((0, 0), (1, 9)):
        graph.fold(
            np.concatenate(
                [
                    event(EventKind.SUBMITTED, 10 + actor, 5 + actor, a=1),
                    event(EventKind.ACTOR_CREATED, 12 + actor, 5 + actor, a=actor),
                    event(EventKind.STARTED, 20 + actor, 5 + actor, b=700 + actor),
                    event(EventKind.ACTOR_STATE, 30 + actor, 0, a=actor, b=1),
                    event(EventKind.ACTOR_STATE, 40 + actor, 0, a=actor, b=3, c=how),
                ]
            )
        )
    facts = {label.name: (label.state, label.crashed, label.pid) for label in actors_of(graph).values()}
    assert facts == {"actor0": ("dead", False, 700), "actor1": ("dead", True, 701)}
