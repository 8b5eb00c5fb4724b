"""An engine behind a line that breaks: whatever is lost, comes twice or comes late, all happens as with the engine
itself."""

from __future__ import annotations

import random

import pytest
from cellmesh.scheduler.cluster.messages import Output
from engines.home import story

from cellmesh.engines.fake_engine import FakeEngine
from cellmesh.engines.interface import (
    ActorEnded,
    Came,
    Ended,
    Event,
    Failed,
    Lost,
    NodesChanged,
    Notice,
    Outcome,
    Parcel,
    Said,
    SetAside,
)
from cellmesh.engines.parcels import Progress, decode_progress, encode
from cellmesh.engines.relay.fake import LineFaults, RelayedFake
from cellmesh.engines.relay.pieces import BATCH_BYTES, PIECE_BYTES, Incoming, Outgoing, decode
from cellmesh.engines.relay.prints import Prints
from cellmesh.engines.relay.submitter import Submitter

QUICK, ALL, AT_ONCE = 100, 1000, 25  # seeds
NO_FAULTS = LineFaults(0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    "first", [pytest.param(n, marks=[pytest.mark.slow] * (n >= QUICK)) for n in range(0, ALL, AT_ONCE)]
)
def test_seeds(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        try:
            story(seed, random.Random(seed).choice([NO_FAULTS, LineFaults(), LineFaults(0.3, 0.3, 0.3, 0.3)]))
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.parametrize("seed", range(20))
def test_things_come_in_order_each_once_and_whole(seed: int) -> None:
    chance = random.Random(seed)
    sizes = [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * BATCH_BYTES]
    sent = [(b"%d" % n, chance.randbytes(chance.choice(sizes))) for n in range(10)]
    out, into = Outgoing(), Incoming()
    rest, batches, come = list(sent), [out.batch()], list[tuple[bytes, bytes]]()
    while rest or out:
        if rest and chance.random() < 0.5:
            out.add(*rest.pop(0))
        batches.append(out.batch())
        come += [(head, bytes(data)) for head, data in into.take(chance.choice(batches[-3:]))]
        if chance.random() < 0.5:
            out.came(into.n)
    assert come == sent
    assert all(sum(len(piece.data) for piece in decode(batch).pieces) <= BATCH_BYTES for batch in batches)


def test_what_one_before_has_not_come_waits_for_it() -> None:
    out, into = Outgoing(), Incoming()
    out.add(b"first")
    out.came(1)
    out.add(b"second")
    assert list(into.take(out.batch())) == [] and into.n == 0


class Recorded:
    """A fake engine behind a line, and what is told."""

    def __init__(self) -> None:
        self.engine = FakeEngine(lambda data, blobs: Outcome(data, [bytes(blob) for blob in blobs]))
        self.relay = RelayedFake(self.engine, faults=NO_FAULTS)
        self.told: list[Event] = []
        self.facts = self.relay.connect("fake+relay:", {}, self.told.append)

    def drain(self) -> list[Event]:
        """All that happens."""
        self.told.clear()
        while self.relay.carry() or self.engine.work():
            pass
        return self.told


def test_large_values_go_to_and_fro() -> None:
    there = Recorded()
    data = random.Random(0).randbytes(3 * BATCH_BYTES)
    put = there.relay.put(memoryview(data))
    handle = there.relay.submit(Parcel(b"data", [put], {"CPU": 1}))
    (ended,) = there.drain()
    assert isinstance(ended, Ended) and (ended.handle, ended.data) == (handle, b"data")
    (made,) = ended.blobs
    assert made != put
    there.relay.fetch(made)
    (came,) = there.drain()
    assert isinstance(came, Came) and (came.blob, bytes(came.data)) == (made, data)
    there.relay.fetch(made)
    there.relay.release([made, put])  # which is told of all the same
    assert there.drain() == [Lost(made)]
    assert not there.engine.blobs


def test_its_machines_are_those_of_the_engine() -> None:
    there = Recorded()
    assert there.relay.nodes() == there.engine.nodes() != []
    there.engine.lose_node("fake-1")
    assert there.drain() == [NodesChanged()]
    assert there.relay.nodes() == []


def test_a_call_of_an_actor_that_is_over_has_failed() -> None:
    there = Recorded()
    actor = there.relay.create_actor(Parcel(b"make", (), {"CPU": 1}), {})
    call = there.relay.call(actor, Parcel(b"call"))
    assert there.drain() == [Ended(actor, b"make", []), Ended(call, b"call", [])]
    there.relay.kill(actor, True)
    (ended,) = there.drain()
    assert isinstance(ended, ActorEnded) and ended.actor == actor
    late = there.relay.call(actor, Parcel(b"late"))
    there.relay.kill(actor, True)
    there.relay.say(actor, b"nobody hears")
    assert there.drain() == [Failed(late, "crashed")]


def test_a_constructor_that_fails_leaves_no_name() -> None:
    there = Recorded()
    actor = there.relay.create_actor(Parcel(b"make", (), {"CPU": 100}), {})
    assert there.drain() == [Failed(actor, "unschedulable")]
    submitter = there.relay._there
    assert not submitter._runs._theirs and not submitter._runs._ours and not submitter._actors


def test_bundles_are_put_aside_and_given_back() -> None:
    there = Recorded()
    group = there.relay.reserve([{"CPU": 1}], "PACK")
    assert there.drain() == [SetAside(group)]
    there.relay.unreserve(group)
    assert there.drain() == []
    assert not any(there.engine.used["fake-1"].values())


def printed(told: list[Event]) -> list[str]:
    """What these say that tasks have printed, piece by piece."""
    progress = [decode_progress(event.message) for event in told if isinstance(event, Said)]
    assert [one.at for one in progress] == list(range(len(progress))), "none is missing"
    return [piece.text for one in progress for piece in one.news if isinstance(piece, Output)]


def test_of_prints_that_home_does_not_take_the_first_are_kept_and_it_hears_how_much_is_left_out() -> None:
    there = Recorded()
    there.relay._there = submitter = Submitter(there.engine, Prints(most_bytes=10_000))
    texts = [f"{n}" * 1000 for n in range(10)] * 3
    for at, text in enumerate(texts):
        submitter.tell(Said(encode(Progress(1, 1, at, [Output(1, 0, "stdout", 1, text)]))))
    told = there.drain()
    kept = [text for text in printed(told) if text]
    assert kept == texts[: len(kept)] and 8 <= len(kept) < 10
    assert len(printed(told)) == len(texts)
    notices = [event.text for event in told if isinstance(event, Notice)]
    assert [text.partition(" ")[0] for text in notices] == [f"{1000 * (len(texts) - len(kept)):,}"]
    submitter.tell(Said(encode(Progress(2, 1, 0, [Output(2, 0, "stdout", 1, "there is room again")]))))
    assert printed(there.drain()) == ["there is room again"]
    assert not submitter.has_news
