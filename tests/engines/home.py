"""A session's agent, as far as an engine's side can tell, and workers that run no code: for the engine's side of the
messages under a virtual clock and faults by a seed.

Objects are trees of bytes here. A task makes of what it is given, by a hash of all that it can see, a small value, a
large one, one that refers to others which it has made, or one that refers to what it was given; so whatever comes home
shows whether each byte and each reference has gone the right way. Some tasks yield such values as well, and tell of
them while they run, or with their outcome, or twice. Calls of an actor make the same of what
they are given, and see to it that none overtakes another, unless the actor takes several at a time.
"""

from __future__ import annotations

import hashlib
import random
import signal
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from cellmesh.objstore._core import (
    ACTOR_FLAG_ORDERED,
    FAILURE_UNPLACED,
    OBJECT_FAILED,
    OBJECT_PENDING,
    OBJECT_READY,
    PLACEMENT_MODES,
)
from cellmesh.scheduler.cluster import messages as m
from cellmesh.scheduler.ipc.transport import decoder
from msgspec.structs import replace

from cellmesh.engines.batch import Batch
from cellmesh.engines.fake_engine import FakeEngine, Faults
from cellmesh.engines.interface import EngineNode, Outcome, Over, Said
from cellmesh.engines.parcels import (
    OWN,
    Done,
    Given,
    Key,
    Piece,
    Progress,
    Work,
    Yielded,
    decode_done,
    decode_work,
    encode,
    with_places,
)
from cellmesh.engines.peer import EnginePeer
from cellmesh.engines.relay.fake import LineFaults, RelayedFake
from cellmesh.engines.values import KEEP_FUNCTION_S

QUICK = b"quick"  # a function whose values are small, mostly
N_ITEMS = 3  # of a generator
LARGE = 3000  # repetitions of a hash that make a value too large for a message
ACTOR = m.Actor(ACTOR_FLAG_ORDERED, 1, [])
CONCURRENT = m.Actor(0, 4, [1, 3])
IN_POCKET = 7, 1  # what the pocket of an actor calls it
_encoder, _decoder = msgspec.msgpack.Encoder(), decoder(m.ToPeer)


@dataclass(frozen=True)
class Tree:
    """What an object holds; `key`: what home calls it, None for what a task has made."""

    data: bytes
    inner: tuple[Tree, ...] = ()
    key: Key | None = field(default=None, compare=False)

    def digest(self) -> bytes:
        """Of all that it leads to."""
        return hashlib.blake2b(self.data + b"".join(tree.digest() for tree in self.inner), digest_size=32).digest()


def made_of(given: Sequence[Tree]) -> Tree:
    """What a task makes of what it is given, function first."""
    seed = hashlib.blake2b(b"".join(tree.digest() for tree in given), digest_size=32).digest()
    if given[0].data == QUICK and seed[1] % 64:
        return Tree(seed, (Tree(seed[::-1]), given[-1]))
    match seed[0] % 4:
        case 0:
            return Tree(seed)
        case 1:
            return Tree(seed * LARGE)
        case 2:
            return Tree(seed, (Tree(seed[::-1] * LARGE, (Tree(b"small"),)), given[-1]))
        case _:
            return Tree(seed * (LARGE if seed[1] % 2 else 1), tuple(given[1:]))


def items_of(given: Sequence[Tree]) -> list[Tree]:
    """What a generator yields."""
    return [made_of([*given, Tree(b"item %d" % n)]) for n in range(N_ITEMS)]


def _known(work: Work, blobs: Sequence[Any]) -> dict[Key, Tree]:
    """What a parcel refers to."""
    known: dict[Key, Tree] = {}
    for given in work.objects:
        inner = tuple(known[ref.slot, ref.generation] for ref in given.value.refs)
        held = bytes(blobs[given.blob]) if given.blob >= 0 else given.value.data
        assert len(held) == given.value.size
        known[given.slot, given.generation] = Tree(held, inner, (given.slot, given.generation))
    return known


def run(runs: Counter[int], data: bytes, blobs: Sequence[Any]) -> Outcome:
    """What a worker does with a parcel of one task."""
    work, large = decode_work(data), list[bytes]()
    (task,) = work.tasks
    return Outcome(encode(run_task(runs, task, _known(work, blobs), large)), large)


def run_task(runs: Counter[int], task: m.Task, known: dict[Key, Tree], large: list[bytes]) -> Done:
    """What a worker does with a task."""
    runs[task.number] += 1
    if task.creates is not None:
        assert all((ref.slot, ref.generation) in known for ref in task.creates.refs)
        return Done(False, [Given(0, 0, m.Value(OBJECT_READY))], [], 1, 0, actor=IN_POCKET)
    made: list[Given] = []
    given = [known[ref.slot, ref.generation] for ref in (task.function, *task.refs)]
    value = _given((0, task.number), made_of(given), large, made)
    return Done(False, [value], made, 1, 0)


def news_of(work: Work, blobs: Sequence[Any]) -> list[tuple[Piece, list[bytes]]]:
    """What a generator has to tell: each item, and that what the one before refers to is gone."""
    known, gone = _known(work, blobs), list[Key]()
    news: list[tuple[Piece, list[bytes]]] = []
    for n, tree in enumerate(
        items_of([known[ref.slot, ref.generation] for ref in [work.task.function, *work.task.refs]])
    ):
        large, made = list[bytes](), list[Given]()
        value = _given((0, OWN + n), tree, large, made)
        news.append((Yielded(n, [value], made, gone), large))
        gone = [(given.slot, given.generation) for given in made]
    return news


def _given(key: Key, tree: Tree, large: list[bytes], made: list[Given]) -> Given:
    refs: list[m.Ref] = []
    for inner in tree.inner:
        if inner.key is None:
            given = _given(key, inner, large, made)  # and what is in that, first
            made.append(replace(given, slot=len(made) + 1))
            refs.append(m.Ref(made[-1].slot, key[1]))
        else:
            refs.append(m.Ref(*inner.key, yours=True))
    is_large = len(tree.data) > m.MAX_INLINE_BYTES
    if is_large:
        large.append(tree.data)
    value = m.Value(OBJECT_READY, len(tree.data), b"" if is_large else tree.data, refs)
    return Given(*key, value, len(large) - 1 if is_large else -1)


class Host:
    """What runs an actor."""

    def __init__(self, runs: Counter[int], ended: Callable[[int], None]) -> None:
        self._runs, self._ended = runs, ended
        self._last = -1  # call that ran; -1: it has not been constructed
        self._is_ordered = True
        self._is_over = False
        self._kept: list[Key] = []
        self._names: list[Key] = []
        self._turn = 0

    def run(self, data: bytes, blobs: Sequence[Any], over: Over) -> None:
        """Its constructor first, then calls, of which none overtakes another."""
        work = decode_work(data)
        task = work.task
        assert not self._is_over
        if task.creates is not None:
            assert self._last < 0
            self._last = 0
            self._is_ordered = task.creates.actor == ACTOR
        else:
            assert task.actor == m.Ref(*IN_POCKET, yours=True)
            assert self._last >= 0
            assert self._last < task.number or not self._is_ordered
            self._last = task.number
        if task.number % 3:  # else it keeps what it has
            self._kept = [(given.slot, given.generation) for given in work.objects[: task.number % 4]]
        outcome = run(self._runs, data, blobs)
        done = decode_done(outcome.data)
        self._names += [(given.slot, given.generation) for given in done.made]
        n_gone = len(self._names) * (task.number % 3) // 2  # none, half of them, all
        gone, self._names = self._names[:n_gone], self._names[n_gone:]
        done = replace(done, kept=self._kept, gone=gone, turn=self._turn)
        self._turn += 1
        over(Outcome(encode(done), outcome.large))

    def hear(self, message: bytes) -> None:
        """It has no time for that: a parcel takes none."""

    def end(self, force: bool) -> None:
        """It has ended."""
        self._is_over = True
        self._ended(-signal.SIGKILL if force else 0)


class Home:
    """The agent. `told`: how often the engine's side was told of what; `theirs`: likewise, of the engine's.

    Parameters
    ----------
    seed : int
    faults : Faults
    line : LineFaults or None
        Of a line to a relay that has the engine; None: there is none.
    """

    def __init__(self, seed: int, faults: Faults, line: LineFaults | None = None) -> None:
        self.random = random.Random(seed)
        self.is_lazy = False  # what can go together waits until nothing else happens
        self.tasks: dict[int, m.Task] = {}
        self.packed: Counter[int] = Counter()  # by number: how often it has begun to run with others
        self.n_back = 0
        self.runs: Counter[int] = Counter()
        self.engine = FakeEngine(
            self._run,
            [EngineNode("one", {"CPU": 2.0}), EngineNode("two", {"CPU": 1.0})],
            seed,
            faults,
            host=lambda ended: Host(self.runs, ended),
        )
        self._relay = None if line is None else RelayedFake(self.engine, seed, line)
        self._carries = random.Random(seed)  # apart: with and without a relay the same happens at home
        reached = self._relay or self.engine
        self.clock = 0.0
        self.waited_s: dict[int, float] = {}  # of tasks that have ended, by number
        self._said: deque[tuple[m.ToPeer, bytes]] = deque()  # by the engine's side, and not yet heard
        self.peer = EnginePeer(
            reached, "fake", "s", "n", self._hear, lambda error: str(error).encode(), lambda: self.clock
        )
        reached.connect("fake:", {}, self.peer.told)
        self._n = 0
        self.objects: dict[Key, Tree] = {}
        self.told: Counter[Key] = Counter()
        self.pending: set[Key] = set()  # told of, and not yet sealed
        self.theirs: dict[Key, Tree] = {}
        self.n_theirs: Counter[Key] = Counter()
        self._asked: dict[Key, bytearray] = {}
        self.open: dict[int, tuple[Tree, int]] = {}  # number -> what it is to make, retries
        self.items: dict[int, list[Tree]] = {}  # of generators, by number: what they are to yield
        self.n_come: Counter[int] = Counter()  # of them
        self.n_failed = self.n_returned = self.n_ended = self.n_not_begun = self.n_fetched = 0
        self.constructors: dict[int, m.Actor] = {}  # by number
        self.actors: dict[Key, set[int]] = {}  # that live there -> calls under way
        self.ordered: set[Key] = set()  # those of them whose calls run one after the other
        self.overtaken: set[int] = set()  # calls of these that cannot have run, as calls after them have
        self.groups: dict[int, int] = {}  # placement groups that are wanted, by number: how many bundles
        self.reserved: set[int] = set()  # of these
        self.n_unplaced = 0
        self.functions = [self.make(Tree(data)) for data in (b"function 0", b"function 1", QUICK)]

    # ---- what a program does
    def make(self, tree: Tree) -> Tree:
        """An object of home's."""
        self._n += 1
        named = Tree(tree.data, tree.inner, (self._n, 1))
        self.objects[self._n, 1] = named
        return named

    def submit(self) -> None:
        """A task of what there is, by chance."""
        choices = [*self.objects.values(), *self.theirs.values()]
        given = [self.random.choice(self.functions), *self.random.choices(choices, k=self.random.randint(1, 3))]
        self.submit_with(given, self.random.choice([0, 1, 3]))

    def burst(self) -> None:
        """Several of a quick function."""
        for _ in range(self.random.randint(3, 9)):
            given = [self.functions[-1], self.random.choice([*self.objects.values(), *self.theirs.values()])]
            self.submit_with(given, self.random.choice([0, 1, 3]))

    def generate(self) -> None:
        """A task that yields."""
        choices = [*self.objects.values(), *self.theirs.values()]
        given = [self.random.choice(self.functions), *self.random.choices(choices, k=self.random.randint(1, 2))]
        self.items[self._n + 1] = items_of(given)
        self.submit_with(given, self.random.choice([0, 1, 3]), stream=self.random.choice([0, 2]))

    def take_items(self) -> None:
        """Somebody reads one of them, or does not read on."""
        if there := [number for number in self.items if number in self.open]:
            number = self.random.choice(there)
            self._say(m.Taken(number, self.n_come[number], closed=self.random.random() < 0.2))

    def submit_with(
        self,
        given: list[Tree],
        retries: int,
        actor: Key | None = None,
        creates: m.Value | None = None,
        stream: int = -1,
        bundle: m.GroupBundle | None = None,
    ) -> None:
        self._n += 1
        self.open[self._n] = made_of(given), retries
        function, *refs = (self._tell(tree) for tree in given)
        ref = None if actor is None else m.Ref(*actor, yours=True)
        demand = {"CPU": 10_000} if actor is None else {}
        hold = {"CPU": 1} if creates is not None else {}  # little, or nothing else would run
        task = m.Task(
            self._n,
            function,
            demand,
            b"",
            refs,
            len(refs),
            1,
            retries,
            0,
            creates=creates,
            actor=ref,
            hold=hold,
            stream=stream,
            group=0 if actor is None or actor in self.ordered else self.random.randint(0, 1),
            bundle=bundle,
        )
        self.tasks[self._n] = task
        self._say(m.Tasks([task]))

    def begin(self) -> None:
        """A worker says that it runs one of them."""
        if there := [number for number in self.open if number not in self.items]:  # which tell that themselves
            number = self.random.choice(there)
            begun = m.Begun([m.Run(number, 1, 200_000)])
            self.peer.told(Said(encode(Progress(number, self.random.randint(1, 2), 0, [begun]))))

    def reserve(self) -> None:
        """A placement group."""
        self._n += 1
        n = self.groups[self._n] = self.random.randint(1, 2)
        mode = self.random.choice(PLACEMENT_MODES)
        about = self._tell(self.random.choice(list(self.objects.values())))
        self._say(m.Reserve(self._n, about, list(range(n)), [{"CPU": 10_000}] * n, mode))

    def submit_there(self) -> None:
        """A task, or an actor, in a bundle."""
        if self.reserved:
            group = self.random.choice(sorted(self.reserved))
            bundle = m.GroupBundle(group, self.random.randrange(self.groups[group]), False)
            if self.random.random() < 0.3:
                self.create(bundle)
            else:
                given = [self.functions[0], self.random.choice(list(self.objects.values()))]
                self.submit_with(given, self.random.choice([0, 1, 3]), bundle=bundle)

    def unreserve(self) -> None:
        """A placement group goes, with what is there."""
        if self.groups:
            group = self.random.choice(sorted(self.groups))
            self.reserved.discard(group)
            self._say(m.Unreserve(group, list(range(self.groups.pop(group)))))

    def create(self, bundle: m.GroupBundle | None = None) -> None:
        """An actor."""
        held = self.random.choices(list(self.objects.values()), k=self.random.randint(0, 2))
        how = self.random.choice([ACTOR, CONCURRENT])
        creates = m.Value(OBJECT_READY, 5, b"actor", [self._tell(tree) for tree in held], actor=how)
        self.constructors[self._n + 1] = how
        given = [self.functions[0], self.random.choice(list(self.objects.values()))]
        self.submit_with(given, 0, creates=creates, bundle=bundle)

    def call(self) -> None:
        """A call of an actor."""
        if self.actors:
            actor = self.random.choice(sorted(self.actors))
            choices = [*self.objects.values(), *self.theirs.values()]
            given = [self.functions[1], *self.random.choices(choices, k=self.random.randint(0, 2))]
            self.actors[actor].add(self._n + 1)
            self.submit_with(given, 0, actor)

    def kill(self) -> None:
        """An actor, or one that is being constructed."""
        if self.actors and self.random.random() < 0.5:
            self._say(m.Kill(m.Told(*self.random.choice(sorted(self.actors))), 0, True))
        elif self.constructors:
            self._say(m.Kill(None, self.random.choice(sorted(self.constructors)), True))

    def let_go(self) -> None:
        """The last handle of an actor goes, when its calls have ended."""
        for actor in [actor for actor, calls in sorted(self.actors.items()) if not calls][:1]:
            del self.actors[actor]
            self._say(m.Released([m.Told(*actor)]))

    def put(self) -> None:
        """An object of home's, by chance small or large, and with others in it."""
        data = self.random.randbytes(8) * self.random.choice([1, 20_000])
        inner = self.random.choices(list(self.objects.values()), k=self.random.randint(0, 2))
        self.make(Tree(data, tuple(inner)))

    def seal(self) -> None:
        """What was pending is there."""
        for key in sorted(self.pending):
            self.pending.discard(key)
            if self.told[key]:
                self._say(m.Sealed([m.Ref(*key, value=self._value(self.objects[key]))]))

    def release(self) -> None:
        """Something of the engine's is not needed any more."""
        if self.theirs:
            key = self.random.choice(sorted(self.theirs))
            del self.theirs[key]
            self._say(m.Released([m.Told(*key, self.n_theirs.pop(key))]))

    def read(self) -> None:
        """A large value of the engine's is read."""
        large = [key for key, tree in self.theirs.items() if len(tree.data) > m.MAX_INLINE_BYTES]
        if large:
            key = self.random.choice(sorted(large))
            if key not in self._asked:
                self._asked[key] = bytearray()
                self._say(m.Fetch(*key, 0, len(self.theirs[key].data)))

    def cancel(self) -> None:
        """A task's value is not wanted any more."""
        if self.open:
            self.cancel_these([self.random.choice(sorted(self.open))])

    def cancel_these(self, numbers: list[int]) -> None:
        """These tasks' values are not."""
        self._say(m.Cancel(numbers))

    def lose(self) -> None:
        """One of the engine's machines."""
        self.engine.lose_node("two")

    def give_back(self) -> None:
        """There is room elsewhere for a task."""
        if self.open:  # of calls it is never asked
            self._say(m.GiveBack([self.random.choice(sorted(self.open))]))

    # ---- a worker
    def _run(self, data: bytes, blobs: Sequence[Any]) -> Outcome:
        work = decode_work(data)
        if len(work.tasks) > 1:
            return self._run_batch(work, blobs)
        outcome = run(self.runs, data, blobs)
        number = work.task.number
        if work.task.stream < 0:
            return outcome
        news, n_said, n_heard = (
            news_of(work, blobs),
            *sorted(self.random.choices(range(N_ITEMS + 1), k=2), reverse=True),
        )
        for at, end in ((0, n_heard), (n_heard, n_said)):
            large: list[bytes] = []
            progress = Progress(
                number, self.runs[number], at, with_places(news[at:end], large), self.random.randint(0, 2)
            )
            self.engine.said(encode(progress), large)
        large = [bytes(one) for one in outcome.large]
        left = with_places(news[n_heard:], large)  # as far as nobody has said that it has come
        done = replace(decode_done(outcome.data), run=self.runs[number], at=n_heard, news=left)
        return Outcome(encode(done), large)

    def _run_batch(self, work: Work, blobs: Sequence[Any]) -> Outcome:
        """By chance one of the tasks takes long, and what is said of the others then may be said again at the end."""
        self.packed.update(task.number for task in work.tasks)
        batch, known, large = Batch(work.tasks), _known(work, blobs), list[bytes]()
        while (task := batch.next()) is not None:
            assert self.tasks[task.number].max_retries, "it may not be repeated, and is packed"
            if self.random.random() < 0.1:
                self._break_up(batch, task.number)
            n_before = len(large)
            batch.end(task, run_task(self.runs, task, known, large), len(large) - n_before)
        return Outcome(encode(batch.rest()), large)

    def _break_up(self, batch: Batch, number: int) -> None:
        if (outcomes := batch.break_up()) is not None:
            self.n_back += len(outcomes.back)
            run = 3 + self.runs[number]  # no other run's number, see `begin`
            self.engine.said(encode(Progress(number, run, 0, [], others=outcomes)), [])
            if self.random.random() < 0.5:
                batch.told(outcomes)

    # ---- messages
    def _say(self, message: m.Message, frame: bytes = b"") -> None:
        self.peer.receive(_decoder.decode(_encoder.encode(message)), frame)
        if not self.is_lazy:
            self.peer.flush()

    def _tell(self, tree: Tree) -> m.Ref:
        assert tree.key is not None
        if tree.key in self.theirs:
            return m.Ref(*tree.key, yours=True)
        self.told[tree.key] += 1
        if self.told[tree.key] > 1:
            return m.Ref(*tree.key)
        if self.random.random() < 0.2:
            self.pending.add(tree.key)
            return m.Ref(*tree.key, value=m.Value(OBJECT_PENDING))
        return m.Ref(*tree.key, value=self._value(tree) if self.random.random() < 0.8 else None)

    def _value(self, tree: Tree) -> m.Value:
        is_large = len(tree.data) > m.MAX_INLINE_BYTES
        refs = [self._tell(inner) for inner in tree.inner]
        return m.Value(OBJECT_READY, len(tree.data), b"" if is_large else tree.data, refs)

    def _hear(self, message: m.Message, frame: bytes | memoryview | None) -> None:
        self._said.append((_decoder.decode(_encoder.encode(message)), bytes(frame or b"")))

    def work(self) -> bool:
        """Hear one thing, or have the engine do one; False: there is nothing to be done."""
        if self._said:
            self._heard(*self._said.popleft())
        elif not self._there():
            waits_s = self.peer.flush()
            if waits_s is not None:
                self.clock += waits_s
            return waits_s is not None or bool(self._said) or self._there()
        return True

    def _there(self) -> bool:
        """The engine does one thing, or the line carries."""
        if self._relay is None or self._carries.random() < 0.5:
            return self.engine.work() or (self._relay is not None and self._relay.carry())
        return self._relay.carry() or self.engine.work()

    def _heard(self, message: m.ToPeer, frame: bytes) -> None:
        match message:
            case m.Results(results):
                for result in results:
                    self._ended(result)
            case m.Items(number, at, values):
                assert at <= self.n_come[number], "it leaves one out"
                for value, tree in zip(values, self.items[number][at : at + len(values)], strict=True):
                    self._take_value(value, tree)
                self.n_come[number] = max(self.n_come[number], at + len(values))
            case m.Returned(numbers):
                for number in numbers:
                    del self.open[number]
                    self.constructors.pop(number, None)
                    assert not any(number in calls for calls in self.actors.values())
                    assert not self.runs[number]
                    self.n_returned += 1
            case m.Released(objects):
                for told in objects:
                    key = told.slot, told.generation
                    self.told[key] -= told.n
                    assert self.told[key] >= 0, "it releases more often than it was told"
            case m.Want(objects):
                for told in objects:
                    key = told.slot, told.generation
                    if key not in self.pending:
                        self._say(m.Sealed([m.Ref(*key, value=self._value(self.objects[key]))]))
            case m.Fetch(slot, generation, at, n):
                self.n_fetched += 1
                self._say(m.Chunk(slot, generation, at), self.objects[slot, generation].data[at : at + n])
            case m.ActorEnded():
                self._actor_ended(message)
            case m.Reserved(group, indexes, given):
                assert given and group not in self.reserved
                if group in self.groups:
                    assert indexes == list(range(self.groups[group]))
                    self.reserved.add(group)
            case m.Begun():
                pass
            case m.Chunk(slot, generation, at, found):
                self._came((slot, generation), at, frame, found)
            case _:
                raise AssertionError(f"it says {message}")

    def _came(self, key: Key, at: int, frame: bytes, found: bool) -> None:
        gathered = self._asked.pop(key)
        assert not found or (at == len(gathered) and frame == self.theirs.get(key, Tree(frame)).data)

    # ---- what comes home
    def _ended(self, result: m.Result) -> None:
        expected, retries = self.open.pop(result.number)  # once
        self.waited_s[result.number] = result.waited * 1e-6
        assert self.runs[result.number] <= retries + 1, f"task {result.number} ran {self.runs[result.number]} times"
        (value,) = result.values
        bundle = self.tasks[result.number].bundle
        if value.state == OBJECT_FAILED and value.code == FAILURE_UNPLACED:
            assert bundle is not None and bundle.group not in self.groups
            self.n_unplaced += 1
        for actor, calls in self.actors.items():
            if result.number in calls and value.state != OBJECT_FAILED and actor in self.ordered:
                assert result.number not in self.overtaken, "a call after it has been answered"
                self.overtaken.update(number for number in calls if number < result.number)  # whose argument is lost
            calls.discard(result.number)
        if result.number in self.constructors:
            how = self.constructors.pop(result.number)
            assert (result.actor is None) == (value.state != OBJECT_READY)
            if result.actor is not None:
                actor = result.actor.slot, result.actor.generation
                self.actors[actor] = set()
                if how == ACTOR:
                    self.ordered.add(actor)
            return
        if value.state == OBJECT_FAILED:
            self.n_failed += 1
            return
        if result.number in self.items:
            assert self.n_come[result.number] == N_ITEMS, "it has ended, and not all have come"
        self._take_value(value, expected)

    def _take_value(self, value: m.Value, tree: Tree) -> None:
        self._check(value, tree)
        if value.there is not None:
            self._take(value.there, tree)

    def _actor_ended(self, message: m.ActorEnded) -> None:
        key = message.actor.slot, message.actor.generation
        if key not in self.actors:
            return  # it was let go of, and the two have crossed
        self.n_ended += 1
        calls = self.actors.pop(key)
        assert set(message.begun) <= calls
        for number in calls:
            del self.open[number]
            if number not in message.begun:
                self.n_not_begun += 1
                assert not self.runs[number], "it may begin in the next life"
        self._say(m.Released([message.actor]))

    def _check(self, value: m.Value, tree: Tree) -> None:
        """That is what a value holds; and what this side is told of with it."""
        assert value.size == len(tree.data)
        assert value.data in (tree.data, b"")
        assert (value.data == b"") == (value.size > m.MAX_INLINE_BYTES)
        for ref, inner in zip(value.refs, tree.inner, strict=True):
            if ref.yours:
                assert self.objects[ref.slot, ref.generation] == inner
                assert self.told[ref.slot, ref.generation] > 0
            else:
                self._take(ref, inner)

    def _take(self, ref: m.Ref, tree: Tree) -> None:
        key = ref.slot, ref.generation
        assert ref.generation >= OWN
        self.n_theirs[key] += 1
        if self.n_theirs[key] == 1:
            self.theirs[key] = Tree(tree.data, tree.inner, key)
        assert self.theirs[key] == tree
        if ref.value is not None:
            self._check(ref.value, tree)

    # ---- the end
    def drain(self) -> None:
        """All that was submitted ends."""
        while self.open:
            self.seal()
            assert self.work(), f"nothing happens, and {len(self.open)} tasks have not ended"
        while self.work():
            pass

    def end(self) -> None:
        """All that was submitted ends, all is let go of, and nothing is left anywhere."""
        while self.groups:  # what is lost of them may have no room any more
            self.unreserve()
        self.drain()
        while self.actors:
            self.let_go()
        while self.theirs:
            self.release()
        now = 0.0
        for _ in range(3):
            while self.work():
                pass
            self.seal()
            self.peer.sweep(now)
            now += 2 * KEEP_FUNCTION_S
        while self.work():
            pass
        assert not +self.told, f"the engine's side keeps {+self.told}"
        assert not self.engine.blobs, f"the engine keeps {self.engine.blobs} values"
        assert not len(self.peer)
        assert self.peer.news_of_used() is None, "something has CPUs there still"
        assert not self.engine.n_actors
        left = [amount for used in self.engine.used.values() for amount in used.values()]
        assert all(abs(amount) < 1e-9 for amount in left), "something has what is nobody's"


def story(seed: int, line: LineFaults | None = None) -> Home:
    """What happens by that seed, to its end."""
    chance = random.Random(seed)
    faults = chance.choice([Faults(), Faults(late_s=0.1), Faults(0.2, 0.0, 0.01), Faults(0.2, 0.2, 0.1)])
    home = Home(seed, faults, line)
    home.is_lazy = chance.random() < 0.7
    steps = [*[home.submit] * 2, *[home.work] * 3, home.put, home.seal, home.release, home.read, home.begin]
    if chance.random() < 0.5:
        steps += [home.cancel, home.give_back, home.lose]
    if chance.random() < 0.5:
        for _ in range(3):
            home.create()
        home.drain()  # from now on there are some to be called
        steps += [home.create, *[home.call] * 6, home.let_go, home.kill]
    if chance.random() < 0.5:
        steps += [*[home.generate] * 2, home.take_items]
    if chance.random() < 0.5:
        home.burst()
        home.burst()
        home.drain()  # from now on it is known that they are quick
        steps += [home.burst] * 4
    if chance.random() < 0.3:
        home.reserve()
        steps += [home.reserve, *[home.submit_there] * 6, home.unreserve]
    for _ in range(100):
        home.random.choice(steps)()
    home.end()
    return home
