"""Calls that pockets make, on the engine's side of the messages: made once at home, answered once to who is there
still, and nothing is kept in the end."""

from __future__ import annotations

import pytest
from cellmesh.objstore._core import FAILURE_ACTOR_DIED, FAILURE_STORE_FULL, OBJECT_PENDING, OBJECT_READY
from cellmesh.scheduler.cluster import messages as m
from engines.home import Home, Tree

from cellmesh.engines.fake_engine import Faults
from cellmesh.engines.interface import Capabilities, Said
from cellmesh.engines.parcels import AGENT, Answered, Called, Given, Progress, Reads, decode_said, encode
from cellmesh.engines.values import Fault

POCKET, FUNCTION, RESULT = 77, (9, 1), (10, 1)  # what the pocket calls itself, and what it has made


class Calls:
    """A task that is under way, and its pocket's calls of an actor of home's."""

    def __init__(self) -> None:
        self.home = home = Home(0, Faults())
        self.actor = home.make(Tree(b"actor"))
        home.submit_with([home.functions[0], self.actor], 0)
        while home._said:
            home.work()
        self.number = max(home.open)
        self.said: list[Answered] = []
        self.asked: list[m.Task] = []
        self.looked_for: list[m.Find] = []
        self.printed: list[str] = []
        self.taken: list[m.Taken] = []
        home.engine.say = lambda handle, message: self.said.append(decode_said(message))
        self._of_home, home._heard = home._heard, self._heard

    def call(self, at: int = 0, run: int = 1, stream: int = -1) -> None:
        """The pocket tells of a call."""
        assert self.actor.key is not None
        function = Given(*FUNCTION, m.Value(OBJECT_READY, 3, b"add"))
        actor = m.Ref(*self.actor.key, yours=True)
        task = m.Task(5, m.Ref(*FUNCTION), {}, b"", [actor], 0, 1, 0, 0, actor=actor, stream=stream)
        made = [function] if at == 0 else []
        self.tell(Progress(self.number, run, at, [Called(POCKET, [task], [[RESULT]], made, [])]))

    def tell(self, progress: Progress) -> None:
        self.home.peer.told(Said(encode(progress)))
        self.hear()

    def hear(self) -> None:
        """What the engine's side says by now."""
        said, self.home._said = [*self.home._said], type(self.home._said)()
        for message, frame in said:
            self._heard(message, frame)

    def _heard(self, message: m.ToPeer, frame: bytes) -> None:
        match message:
            case m.Tasks(tasks):
                self.asked += tasks
            case m.Find():
                self.looked_for.append(message)
            case m.Output():
                self.printed.append(message.text)
            case m.Taken():
                self.taken.append(message)
            case _:
                self._of_home(message, frame)

    def make(self, run: int = 1) -> None:
        """The pocket tells of an actor that it makes."""
        function = Given(*FUNCTION, m.Value(OBJECT_READY, 3, b"add"))
        task = m.Task(6, m.Ref(*FUNCTION), {}, b"", [], 0, 1, 0, 0, creates=ACTOR, home=m.Home("name"))
        self.tell(Progress(self.number, run, 0, [Called(POCKET, [task], [[RESULT]], [function], [])]))

    def ask(self, at: int, number: int) -> None:
        """The pocket asks the agent something."""
        function = Given(9, 2 + at, m.Value(OBJECT_READY, 4, b"find"))
        task = m.Task(number, m.Ref(9, 2 + at), {}, b"", [], 0, 1, 0, 0, actor=m.Ref(*AGENT, yours=True))
        self.tell(Progress(self.number, 1, at, [Called(POCKET, [task], [[(10, 2 + at)]], [function], [])]))

    def items(self, at: int, *values: m.Value, number: int = 1) -> None:
        """Home tells what the call has yielded."""
        self.home._say(m.Items(number, at, list(values)))
        self.hear()

    def large(self) -> tuple[m.Value, bytes]:
        """A value of home's."""
        tree = self.home.make(Tree(bytes(2 * m.MAX_INLINE_BYTES)))
        ref = self.home._tell(tree)
        return m.Value(OBJECT_READY, len(tree.data), b"", there=m.Ref(ref.slot, ref.generation)), tree.data

    def answer(self, value: m.Value, number: int = 1) -> None:
        self.home._say(m.Results([m.Result(number, 0, [value])]))
        self.hear()


@pytest.fixture
def calls() -> Calls:
    return Calls()


ACTOR = m.Value(OBJECT_READY, 5, b"class", actor=m.Actor(1, 1, []))
SMALL = m.Value(OBJECT_READY, 3, b"yes")


def end(calls: Calls) -> None:
    """All ends; what home was told of with the calls is let go of."""
    home = calls.home
    for task in calls.asked:
        home._say(m.Released([m.Told(task.function.slot, task.function.generation)]))
    home.end()


def test_a_call_is_made_once_in_the_callers_name(calls: Calls) -> None:
    calls.call()
    calls.call()  # said again, as nobody knew that it had come
    (task,) = calls.asked
    assert task.comes_home
    assert task.actor == m.Ref(*calls.actor.key, yours=True)
    assert task.function.value is not None and task.function.value.data == b"add"
    assert task.refs == [task.actor]
    calls.answer(SMALL)
    end(calls)


def test_a_large_answer_brings_its_bytes(calls: Calls) -> None:
    calls.call()
    value, data = calls.large()
    calls.answer(value)
    while not calls.said:
        assert calls.home.engine.work()  # which brings what is large
    (answer,) = calls.said
    (given,) = answer.values
    assert answer.data[given.blob] == data
    end(calls)


def test_what_an_answer_brings_is_held_for_its_caller_when_the_answer_is_not_needed_any_more(calls: Calls) -> None:
    calls.call()
    ref = calls.home._tell(calls.home.make(Tree(b"inner")))
    calls.answer(m.Value(OBJECT_READY, 3, b"yes", [ref]))
    calls.tell(Progress(calls.number, 1, 1, [Called(POCKET, [], [], [], [RESULT])]))
    assert calls.home.told[ref.slot, ref.generation] == 1
    calls.home.drain()  # the caller has ended
    assert not calls.home.told[ref.slot, ref.generation]
    end(calls)


def test_who_has_ended_hears_nothing_and_what_was_called_is_known(calls: Calls) -> None:
    calls.call()
    calls.home.drain()
    calls.answer(SMALL)
    assert not calls.said
    end(calls)


def test_what_is_no_answer_is_a_fault(calls: Calls) -> None:
    calls.call()
    calls.answer(SMALL)
    with pytest.raises(Fault):
        calls.answer(SMALL)
    with pytest.raises(Fault):
        calls.answer(SMALL, 99)


def test_an_answer_is_said_again_once_it_is_late_and_not_known_to_be_heard(calls: Calls) -> None:
    calls.call()
    calls.answer(SMALL)
    late = [({5: 0}, 1), ({5: 0}, 2), ({5: 0}, 3), ({}, 3), ({5: 0}, 3)]
    for unanswered, n_said in late:  # at first it may be on its way
        calls.tell(Progress(calls.number, 1, 1, [], unanswered=unanswered))
        assert len(calls.said) == n_said
    end(calls)


def test_a_run_that_is_begun_again_calls_again(calls: Calls) -> None:
    calls.call(run=1)
    calls.call(run=2)
    assert [task.number for task in calls.asked] == [1, 2]
    for number in (1, 2):
        calls.answer(SMALL, number)
    end(calls)


def test_what_a_call_gives_is_pending_until_home_has_answered(calls: Calls) -> None:
    calls.call()
    values = calls.home.peer._values
    (own,) = [own for own in values._own.values() if own.value.state == OBJECT_PENDING]
    calls.answer(SMALL)
    assert own.value.data == b"yes"
    end(calls)


def made(calls: Calls) -> m.Ref:
    """Home has made the actor; what it says of it."""
    tree = calls.home.make(Tree(b"class"))
    told = calls.home._tell(tree)
    return m.Ref(told.slot, told.generation, value=ACTOR)


def test_an_actor_is_made_at_home_and_held_for_its_maker(calls: Calls) -> None:
    calls.make()
    (task,) = calls.asked
    assert (task.creates, task.home, task.actor, task.comes_home) == (ACTOR, m.Home("name"), None, True)
    ref = made(calls)
    calls.home._say(m.Results([m.Result(task.number, 0, [], actor=ref)]))
    calls.hear()
    (answer,) = calls.said
    assert (answer.number, answer.failed) == (6, False)
    assert answer.values == [Given(ref.slot, ref.generation, ACTOR)]
    assert calls.home.told[ref.slot, ref.generation] == 1
    calls.home.drain()  # with its maker
    assert not calls.home.told[ref.slot, ref.generation]
    end(calls)


def test_a_name_that_is_taken_and_a_segment_that_is_full_are_told_apart(calls: Calls) -> None:
    calls.make(run=1)
    calls.home._say(m.Results([m.Result(1, 1, [])]))
    calls.make(run=2)
    calls.home._say(m.Returned([2]))
    calls.hear()
    codes = [given.value.code for answer in calls.said for given in answer.values]
    assert codes == [FAILURE_ACTOR_DIED, FAILURE_STORE_FULL]
    assert all(answer.failed for answer in calls.said)
    end(calls)


def test_what_an_earlier_run_has_made_is_not_held_for_the_next(calls: Calls) -> None:
    calls.make(run=1)
    calls.tell(Progress(calls.number, 2, 0, []))
    ref = made(calls)
    calls.home._say(m.Results([m.Result(1, 0, [], actor=ref)]))
    calls.hear()
    assert not calls.home.told[ref.slot, ref.generation]
    end(calls)


def test_the_agent_is_looked_for_once_and_asked_by_its_own_name(calls: Calls) -> None:
    calls.ask(0, 7)
    calls.ask(1, 8)
    assert (len(calls.looked_for), calls.asked) == (1, [])
    ref = made(calls)
    calls.home._say(m.Found(0, ref))
    calls.hear()
    calls.ask(2, 9)
    assert [task.actor for task in calls.asked] == [m.Ref(ref.slot, ref.generation, yours=True)] * 3
    with pytest.raises(Fault):
        calls.home._say(m.Found(0, None))
        calls.hear()


def test_bundles_are_refused_by_an_engine_that_has_none(calls: Calls) -> None:
    calls.home.engine.can = Capabilities()
    calls.home._say(m.Reserve(3, calls.home._tell(calls.home.make(Tree(b"about"))), [0, 1], [{}, {}]))
    said = [message for message, _ in calls.home._said if isinstance(message, m.Reserved)]
    assert said == [m.Reserved(3, [0, 1], given=False)]
    calls.home._said = type(calls.home._said)(one for one in calls.home._said if one[0] not in said)
    calls.hear()
    end(calls)


def test_what_comes_by_a_quicker_way_waits_for_what_was_said_before(calls: Calls) -> None:
    first = m.Begun([m.Run(calls.number, 5, 0)])
    calls.tell(Progress(calls.number, 1, 1, [m.Output(calls.number, 0, "stdout", 5, "later")]))
    assert not calls.printed
    calls.tell(Progress(calls.number, 1, 0, [first]))
    assert calls.printed == ["later"]
    end(calls)


# ---------------------------------------------------------------- calls that yield
def test_items_are_told_in_their_order_and_the_end_behind_them(calls: Calls) -> None:
    calls.call(stream=2)
    assert [task.stream for task in calls.asked] == [2]
    value, data = calls.large()
    calls.items(0, value, SMALL)
    calls.items(2, SMALL)
    calls.answer(SMALL)
    assert not calls.said  # what is large is on its way
    while not calls.said:
        assert calls.home.engine.work()
    assert [(said.number, said.at, said.is_over) for said in calls.said] == [(5, 0, False), (5, 2, False), (5, 3, True)]
    first, second = calls.said[0].values
    assert (calls.said[0].data[first.blob], second.value.data) == (data, b"yes")
    end(calls)


def test_home_is_told_how_far_its_items_are_read(calls: Calls) -> None:
    calls.call(stream=2)
    calls.items(0, SMALL)
    calls.tell(Progress(calls.number, 1, 1, [Reads(POCKET, 5, 1), Reads(POCKET, 6, 9), Reads(POCKET + 1, 5, 9)]))
    assert calls.taken == [m.Taken(1, 1)]
    calls.tell(Progress(calls.number, 1, 4, [Reads(POCKET, 5, 1, closed=True)]))
    calls.home.drain()  # the caller has ended
    calls.hear()
    assert calls.taken[1:] == [m.Taken(1, 1, closed=True)]
    calls.answer(SMALL)
    end(calls)


@pytest.mark.parametrize("ends", ["it ends", "it begins again"])
def test_what_a_run_that_has_ended_was_reading_is_not_read_on(calls: Calls, ends: str) -> None:
    calls.call(stream=0)
    calls.items(0, SMALL)
    if ends == "it ends":
        calls.home.drain()
    else:
        calls.tell(Progress(calls.number, 2, 0, []))
    calls.hear()
    assert calls.taken == [m.Taken(1, 0, closed=True)]
    calls.items(1, calls.large()[0])  # that was on its way
    calls.answer(SMALL)
    assert len(calls.said) == 1  # of the first
    end(calls)


def test_items_are_said_again_from_the_first_that_has_not_come(calls: Calls) -> None:
    calls.call(stream=0)
    for at in range(3):
        calls.items(at, SMALL)
    calls.tell(Progress(calls.number, 1, 1, [], unanswered={5: 0}))  # they may be on their way
    calls.said.clear()
    calls.tell(Progress(calls.number, 1, 1, [], unanswered={5: 1}))
    assert [said.at for said in calls.said] == [1, 2]
    calls.answer(SMALL)
    end(calls)


def test_items_that_cannot_be_are_a_fault(calls: Calls) -> None:
    calls.call(stream=0)
    for number, at in (99, 0), (1, 1):
        with pytest.raises(Fault):
            calls.items(at, SMALL, number=number)


# ---------------------------------------------------------------- actors that live there
class Lives(Calls):
    """Whose actor lives there, and which a task there calls by the name that it has there."""

    def __init__(self) -> None:
        super().__init__()
        self.home.drain()
        self.home.create()
        self.home.drain()
        ((key, _),) = self.home.actors.items()
        self.actor = Tree(b"", key=key)
        self.home.submit_with([self.home.functions[0]], 0)
        self.number = max(self.home.open)
        self.living = self.home.peer._values._own[key]
        # As a task has it that is given what the actor has made of its own handle.
        self.home.peer._calls[self.number].needs.append(key)
        self.home.peer._values.hold([key])


def test_an_actor_that_lives_there_is_called_at_home_by_the_name_that_it_has_there() -> None:
    calls = Lives()
    calls.call()
    (task,) = calls.asked
    assert calls.actor.key is not None
    assert task.actor == m.Ref(*calls.actor.key)
    assert calls.living.n_told == 3  # as its actor, and among its arguments


def test_one_that_home_has_let_go_of_is_dead() -> None:
    calls = Lives()
    calls.living.n_told = 0
    calls.call()
    assert not calls.asked
    (answer,) = calls.said
    assert (answer.failed, answer.values[0].value.code) == (True, FAILURE_ACTOR_DIED)


def test_one_that_lives_there_is_killed_by_the_name_that_it_has_there() -> None:
    calls = Lives()
    assert calls.actor.key is not None
    kill = m.Kill(m.Told(*calls.actor.key), 0, True)
    heard: list[m.Message] = []
    calls.home.peer._calls_out._send = heard.append
    calls.tell(Progress(calls.number, 1, 0, [kill]))
    assert heard == [m.Kill(m.Told(*calls.actor.key), 0, True, lives_here=True)]
