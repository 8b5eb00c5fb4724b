"""Agent requests: which of them the agent passes on to the head, and what it answers without it."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec
import pytest
from cellmesh.scheduler.cluster.agent import requests
from cellmesh.scheduler.cluster.agent.requests import AgentRequests
from cellmesh.scheduler.cluster.messages import StoreReply, StoreRequest
from cellmesh.scheduler.ipc.messages import ClusterNode, ClusterReply


class Client:
    """Hands calls to the agent, and keeps its answers."""

    def __init__(self) -> None:
        self.calls: deque[tuple[str, tuple[Any, ...]]] = deque()
        self.begun: list[tuple[str, tuple[Any, ...]]] = []
        self.answers: dict[int, tuple[Any, ...]] = {}

    def serve(self, *arguments: object) -> None:
        pass

    def actors(self) -> list[dict[str, Any]]:
        return []

    def next(self, timeout: float) -> int:
        if not self.calls:
            return -1
        self.begun.append(self.calls.popleft())
        return len(self.begun) - 1

    def load(self, task: int) -> tuple[Any, Any, Any]:
        request, arguments = self.begun[task]
        return ("cluster", request, None), arguments, {}

    def finish(self, task: int, answer: tuple[Any, ...]) -> None:
        assert task not in self.answers
        self.answers[task] = answer


class Bench:
    def __init__(self) -> None:
        self.client = Client()
        self.asked: list[StoreRequest] = []
        self.asked_nodes: list[int] = []
        self.peers: dict[int, Any] = {}
        self.requests = AgentRequests(
            self.client,
            7,
            self.asked.append,
            self.peers.get,
            lambda node, call, *arguments: call(*arguments),
            self.asked_nodes.append,
        )

    def call(self, request: str, *arguments: object) -> None:
        self.client.calls.append((request, arguments))
        self.requests.look()


def test_a_request_to_the_control_store_goes_to_the_head_and_its_answer_back() -> None:
    bench = Bench()
    bench.call("store", "kv", "swap", "k", b"new", b"old")
    (request,) = bench.asked
    assert (request.node, request.table, request.operation, request.key, request.value, request.expected) == (
        7,
        "kv",
        "swap",
        "k",
        b"new",
        b"old",
    )
    assert not bench.client.answers
    bench.requests.reply(StoreReply(request.number, True, b"v", ["a"], [b"b"], True))
    bench.requests.reply(StoreReply(request.number, True))  # it comes twice
    assert bench.client.answers == {0: ("reply", True, b"v", True, ("a",), (b"b",))}
    bench.call("store", "kv", "put", "k", b"new", b"")
    bench.requests.reply(StoreReply(bench.asked[-1].number, False, error="no room", full=True))
    bench.call("store", "kv", "put", "k", b"new", b"")
    bench.requests.reply(StoreReply(bench.asked[-1].number, False, error="away"))
    assert (bench.client.answers[1], bench.client.answers[2]) == (("full", "no room"), ("error", "away"))


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("kv", "get"),
        ("kv", "get", 3, b"", b""),
        ("kv", "latest", "", b"", b""),
        ("names", "delete", "x", b"", b""),
        ("jobs", "put", "x", b"", b""),
        ("x", "get", "k", b"", b""),
        ("kv", "put", "k" * 5000, b"", b""),
        ("kv", "put", "k", b"x" * ((1 << 20) + 1), b""),
        ("kv", "get", "k", b"", b"", 1),
    ],
)
def test_what_is_no_request_is_refused_here(arguments: tuple[object, ...]) -> None:
    bench = Bench()
    bench.call("store", *arguments)
    bench.call("steal", "x")
    assert not bench.asked and bench.client.answers[0][0] == "error" and "does not know" in bench.client.answers[1][1]


def test_without_a_head_all_but_the_machines_is_refused_until_it_is_back() -> None:
    bench = Bench()
    bench.call("store", "kv", "get", "k", b"", b"")
    bench.requests.refuse("gone for 60 s")
    bench.call("claim", "a", "b")
    bench.call("nodes")
    assert not bench.requests.tell("jobs", "x", b"")
    assert [bench.client.answers[task][0] for task in (0, 1)] == [
        "gone"
    ] * 2 and "gone for 60 s" in bench.client.answers[0][1]
    (number,) = bench.asked_nodes
    reply = ClusterReply(number, [ClusterNode("7", "s", "h", "alive", True, {}, {}, {})], "the head does not answer")
    bench.requests.nodes(reply)
    assert number < 0 and msgspec.msgpack.decode(bench.client.answers[2][1], type=ClusterReply) == reply
    bench.requests.refuse("")
    assert bench.requests.tell("jobs", "x", b"v")
    assert (bench.asked[-1].operation, bench.asked[-1].value) == ("put", b"v")


def test_no_more_is_asked_than_may_be_unanswered() -> None:
    bench = Bench()
    for _ in range(requests.MAX_WAITING + 50):
        bench.call("store", "kv", "get", "k", b"", b"")
    assert len(bench.asked) == requests.MAX_WAITING and not bench.requests.tell("runs", "x", b"")
    bench.requests.refuse("gone")  # those who wait are answered; the head is asked all the same once it is back
    bench.requests.refuse("")
    for _ in range(50):
        bench.call("store", "kv", "get", "k", b"", b"")
    assert len(bench.asked) == requests.MAX_WAITING
    for request in bench.asked[:10]:
        bench.requests.reply(StoreReply(request.number, True))
    bench.requests.look()
    assert len(bench.asked) == requests.MAX_WAITING + 10


class Peer:
    """What there is with another node."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.asked: list[tuple[int, str, str]] = []

    def find(self, *question: Any) -> None:
        self.asked.append(question)


@pytest.mark.parametrize("begins_anew", [False, True])
def test_who_is_asked_for_an_actor_and_is_lost_has_none(begins_anew: bool) -> None:
    bench = Bench()
    bench.peers[9] = Peer()
    bench.call("find", "counter", "default")
    (request,) = bench.asked
    bench.requests.reply(StoreReply(request.number, True, b"9"))
    assert bench.peers[9].asked == [(request.number, "counter", "default")]
    del bench.peers[9]
    if begins_anew:
        bench.peers[9] = Peer()
    bench.requests.lost(8)
    assert not bench.client.answers
    bench.requests.lost(9)
    bench.requests.look()
    assert bench.client.answers == {0: ("none",)}
