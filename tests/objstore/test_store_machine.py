"""The store against a dict: whatever sequence of operations of several clients, every ref gives the value it was made
with.

A rule machine: two clients in this process and one in another, values with refs inside, objects that others let go of
first, clients that leave or are killed with references in hand. `CELLMESH_MACHINE_EXAMPLES` says how many sequences
(nightly: more).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np
import pytest
from cellmesh.objstore import _core
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule
from support.plain_hooks import PlainHooks

N_EXAMPLES = int(os.environ.get("CELLMESH_MACHINE_EXAMPLES", "15"))
STORE_BYTES = 8 << 20


def describe(value: Any) -> Any:
    """A value with its refs and arrays made comparable."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.tolist())
    if isinstance(value, list | tuple):
        return (type(value).__name__, [describe(item) for item in value])
    if isinstance(value, dict):
        return ("dict", [(key, describe(item)) for key, item in value.items()])
    return ("ref", value.hex()) if isinstance(value, _core.Ref) else (type(value).__name__, value)


def other_process(fd: int, link: Connection) -> None:
    """A client that keeps the values it is told to keep: (slot of the command, argument) -> answer."""
    client = _core.Client(fd, _core.ROLE_DRIVER, PlainHooks)
    kept: dict[int, Any] = {}
    link.send(client.index)
    while True:
        command, *arguments = link.recv()
        if command == "keep":  # a ref travels as the shared object that contains it
            number, creator = arguments
            box = client.ref_of(creator)
            kept[number] = client.get(box)[0]
            link.send(True)
        elif command == "get":
            link.send(cloudpickle.dumps(describe(client.get(kept[arguments[0]], timeout=20))))
        elif command == "drop":
            del kept[arguments[0]]
            client.flush()
            link.send(True)


VALUES = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=200),
    st.binary(max_size=5000),
    st.none(),
    st.booleans(),
    st.lists(st.integers(), max_size=50),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=20),
    st.integers(0, 40_000).map(lambda n: np.arange(n, dtype=np.int32)),
    st.sampled_from([(), "", b"", -0.0, 1 << 80]),
)


class StoreMachine(RuleBasedStateMachine):
    """Bundles hold numbers; what they stand for is dropped when the machine says so, not when hypothesis does."""

    here = Bundle("here")  # keys of `refs`
    there = Bundle("there")  # numbers of what the other process keeps

    @initialize()
    def begin(self) -> None:
        self.fd = _core.create_segment(STORE_BYTES, n_objects=4096, n_tasks=64, n_actors=4, n_events=256)
        self.clients = [_core.Client(self.fd, _core.ROLE_DRIVER, PlainHooks) for _ in range(2)]
        self.model: dict[str, Any] = {}  # what each object must give, by id
        self.refs: dict[int, tuple[int, Any]] = {}  # client number, Ref
        self.n_refs = 0
        self.kept: dict[int, str] = {}  # by number: ids of what the other process keeps
        self.n_kept = 0
        self.start_other()

    def start_other(self) -> None:
        context = multiprocessing.get_context("fork")
        self.link, theirs = context.Pipe()
        self.other = context.Process(target=other_process, args=(self.fd, theirs), daemon=True)
        self.other.start()
        theirs.close()
        self.other_index = self.link.recv()

    def ask(self, *command: Any) -> Any:
        self.link.send(command)
        assert self.link.poll(30), f"the other process does not answer {command}"
        return self.link.recv()

    def hold(self, number: int, ref: Any) -> int:
        self.n_refs += 1
        self.refs[self.n_refs] = (number, ref)
        return self.n_refs

    def made(self, number: int, ref: Any, value: Any) -> int:
        assert ref.hex() not in self.model, "an id was used twice"
        self.model[ref.hex()] = describe(value)
        return self.hold(number, ref)

    def of_one_client(self, keys: list[int]) -> tuple[int, list[Any]]:
        held = [self.refs[key] for key in keys]
        number = held[0][0]
        return number, list(dict.fromkeys(ref for at, ref in held if at == number))

    # ---- rules
    @rule(target=here, number=st.integers(0, 1), value=VALUES)
    def put(self, number: int, value: Any) -> int:
        return self.made(number, self.clients[number].put(value), value)

    @rule(target=here, inner=st.lists(here, min_size=1, max_size=3), value=VALUES)
    def put_with_refs(self, inner: list[int], value: Any) -> int:
        number, refs = self.of_one_client(inner)
        box = {"value": value, "refs": refs}
        return self.made(number, self.clients[number].put(box), box)

    @rule(key=here)
    def get(self, key: int) -> None:
        number, ref = self.refs[key]
        assert describe(self.clients[number].get(ref, timeout=20)) == self.model[ref.hex()]

    @rule(keys=st.lists(here, min_size=1, max_size=8), goal=st.integers(0, 8))
    def wait(self, keys: list[int], goal: int) -> None:
        number, refs = self.of_one_client(keys)
        goal = min(goal, len(refs))
        assert self.clients[number].wait(refs, goal, 20.0) == (refs[:goal], refs[goal:])
        assert [describe(value) for value in self.clients[number].get(refs)] == [self.model[ref.hex()] for ref in refs]

    @rule(target=here, key=here)
    def open_box(self, key: int) -> int:
        """A ref found in a value: what it was put with may have gone."""
        number, ref = self.refs[key]
        value = self.clients[number].get(ref)
        return self.hold(number, value["refs"][0] if isinstance(value, dict) and "refs" in value else ref)

    @rule(key=consumes(here))
    def drop(self, key: int) -> None:
        number, _ = self.refs.pop(key)
        self.clients[number].flush()

    @rule(target=there, key=here)
    def give(self, key: int) -> int:
        number, ref = self.refs[key]
        box = self.clients[number].put([ref])
        self.n_kept += 1
        assert self.ask("keep", self.n_kept, box.creator)
        self.kept[self.n_kept] = ref.hex()
        return self.n_kept

    @rule(number=there)
    def get_there(self, number: int) -> None:
        if number in self.kept:
            assert pickle.loads(self.ask("get", number)) == self.model[self.kept[number]]

    @rule(number=consumes(there))
    def drop_there(self, number: int) -> None:
        if self.kept.pop(number, None):
            self.ask("drop", number)

    @rule()
    def kill_the_other(self) -> None:
        self.stop_other()
        self.kept.clear()
        self.start_other()

    @precondition(lambda self: self.clients)
    @invariant()
    def nothing_is_violated(self) -> None:
        assert self.clients[0].check() == []

    # ---- the end
    def stop_other(self) -> None:
        os.kill(self.other.pid, signal.SIGKILL)
        self.other.join()
        self.other.close()
        self.link.close()
        self.clients[0].client_died(self.other_index, -signal.SIGKILL)

    def teardown(self) -> None:
        if not hasattr(self, "clients"):
            return
        self.stop_other()
        self.refs.clear()
        client, second = self.clients
        second.close()
        client.client_died(second.index, 0)
        assert client.stats()["n_objects"] == 0 and client.stats()["used_bytes"] == 0 and client.check() == []
        client.close()
        os.close(self.fd)
        self.clients.clear()


StoreMachine.TestCase.settings = settings(
    max_examples=N_EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    derandomize="CELLMESH_MACHINE_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
test_the_store_is_a_dict = pytest.mark.timeout(60 + N_EXAMPLES)(StoreMachine.TestCase)
