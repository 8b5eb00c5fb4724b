"""When a node counts as lost, and when not: with real processes, and a cable that is pulled. The head
here waits a minute before it loses a node for its silence, so one that is lost at once was lost for another reason.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.drivers import serving as serving_head
from support.loopback import Line
from support.real_machines import (
    Machine,
    Network,
    agent_of,
    cannot_make_networks,
    kill_sessions,
    logs_of,
    machines,
    processes_of,
)
from support.waiting import wait_until

PATIENT = ("--node-timeout", "60")
STOPPED_S = 3.0


def fate(head: Machine, session: str) -> tuple[str, str]:
    """The state of the node of that session, and why; as long as the head does not list it, nothing."""
    return next(
        ((row["state"], row["reason"]) for row in head.cluster()["nodes"] if row["session"] == session), ("", "")
    )


@contextmanager
def serving(line: Line) -> Iterator[None]:
    """The proxy works in a thread of its own."""
    is_over = threading.Event()

    def serve() -> None:
        while not is_over.is_set():
            line.receive_ready()
            is_over.wait(0.005)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        line.close()


def test_a_node_whose_processes_are_killed_is_known_to_have_ended() -> None:
    with machines(Machine(), Machine()) as (here, there):
        head = here.head(*PATIENT)
        joined = there.join(head, here.run("token"))
        assert fate(here, joined["session"]) == ("alive", "")
        kill_sessions(there)
        wait_until(lambda: fate(here, joined["session"])[0] == "dead", 30)
        assert "its processes have ended" in fate(here, joined["session"])[1]
        assert fate(here, head["session"]) == ("alive", "")


def test_a_node_that_has_ended_while_there_was_no_head_is_known_to_have_ended() -> None:
    with machines(Machine(), Machine()) as (here, there):
        head = here.head(*PATIENT)
        joined = there.join(head, here.run("token"))
        assert fate(here, joined["session"]) == ("alive", "")
        os.kill(serving_head(here), signal.SIGKILL)
        kill_sessions(there)
        wait_until(lambda: fate(here, joined["session"])[0] == "dead", 30, "its next life has seen it")
        assert "its processes have ended" in fate(here, joined["session"])[1]


def test_neither_a_broken_connection_nor_a_stop_is_a_loss() -> None:
    with machines(Machine(), Machine()) as (here, there):
        head = here.head()
        line = Line(f"tcp://{head['address']}")
        with serving(line):
            joined = there.join({"address": line.endpoint.removeprefix("tcp://")}, here.run("token"))
            n = line.n_connections
            line.cut()
            wait_until(
                lambda: line.n_connections > n and fate(here, joined["session"]) == ("alive", ""),
                30,
                "it has come back",
            )
            stopped = processes_of(there)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + STOPPED_S
            wait_until(lambda: time.monotonic() >= end, 2 * STOPPED_S)
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
            assert fate(here, joined["session"]) == ("alive", "")
            assert "is no member any more" not in logs_of(here)


def test_a_process_that_stays_silent_is_lost_although_its_machine_answers() -> None:
    with machines(Machine(), Machine()) as (here, there):
        head = here.head("--node-timeout", "1")
        joined = there.join(head, here.run("token"))
        agent = agent_of(there)
        os.kill(agent, signal.SIGSTOP)
        wait_until(lambda: fate(here, joined["session"])[0] == "dead", 30)
        assert fate(here, joined["session"])[1].startswith("silent for")
        os.kill(agent, signal.SIGCONT)
        wait_until(lambda: not processes_of(there), 30, "the fenced node has ended")


NO_NETWORK = cannot_make_networks()


@pytest.mark.skipif(bool(NO_NETWORK), reason=f"NO TEST OF REAL NETWORKS: {NO_NETWORK}")
def test_a_machine_whose_cable_is_pulled_is_lost_for_its_silence_and_one_that_is_back_soon_is_not() -> None:
    with Network(2) as network:
        here, there = network.machines
        head = here.head()
        joined = there.join(head, here.run("token"))
        network.pull(2)
        end = time.monotonic() + 1.5
        wait_until(lambda: time.monotonic() >= end, 10)
        network.plug(2)
        wait_until(lambda: fate(here, joined["session"]) == ("alive", ""), 30)
        network.pull(2)
        wait_until(lambda: fate(here, joined["session"])[0] == "dead", 30)
        assert fate(here, joined["session"])[1].startswith("silent for")
        network.plug(2)
        wait_until(lambda: not processes_of(there), 60, "the fenced node has ended")
