"""One key-value store for all machines of a cluster. What its operations do is in tests/runtime/session/test_kv.py."""

from __future__ import annotations

import os
import signal
from textwrap import dedent

from support.drivers import ends_well, program, says, serving
from support.real_machines import Machine, machines
from support.waiting import wait_until

KV = """
import cellmesh.session.agent_client
from cellmesh.util import NodeAffinitySchedulingStrategy as On, kv

def in_time(call):
    while True:  # the head's next life begins soon
        try:
            return call()
        except cm.exceptions.ClusterError as error:
            assert "has not answered within 1 s" in str(error), error

@cm.remote(num_cpus=0.1)
def increment(times):
    for _ in range(times):
        while not kv.compare_and_set("n", old := kv.get("n"), str(int(old or 0) + 1)):
            pass
    return os.environ["XDG_RUNTIME_DIR"]
"""


def test_one_store_for_all_machines_that_outlives_drivers_and_the_head() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head()
        there.join(head, here.run("token"))
        first = program(
            mine,
            head,
            here.run("token"),
            KV
            + dedent("""
            assert (
                kv.get("a") is None
                and kv.put("a", "text")
                and kv.get("a") == "text"
                and not kv.put("a", b"x", overwrite=False)
            )
            assert (
                kv.put("b", b"\\0\\xff" * 500_000, namespace="n")
                and kv.keys() == ["a"]
                and kv.keys("b", namespace="n") == ["b"]
            )
            assert (
                not kv.compare_and_set("a", b"text", "x") and kv.compare_and_set("a", "text", b"new") and kv.exists("a")
            )
            assert kv.put("gone", "x") and kv.delete("gone") and not kv.delete("gone") and not kv.exists("gone")
            wait_for_nodes(3)
            on = [On(node["NodeID"], soft=False) for node in cm.nodes() if node["Alive"]] * 4
            where = cm.get([increment.options(scheduling_strategy=strategy).remote(5) for strategy in on])
            assert len(set(where)) == 3 and kv.get("n") == "60", (where, kv.get("n"))
            try:
                kv.put("a" * 256, {"lr": 1})
            except TypeError as error:
                assert "json.dumps" in str(error)
            print("done")
        """),
        )
        assert "done" in ends_well(first)
        second = program(
            mine,
            head,
            here.run("token"),
            KV
            + dedent("""
            assert kv.get("a") == b"new" and kv.get("b", namespace="n") == b"\\0\\xff" * 500_000, (
                "another session, later"
            )
            cellmesh.session.agent_client.ANSWER_S = 1.0
            print("begun", flush=True)
            sys.stdin.readline()
            assert in_time(lambda: kv.get("n")) == "60" and in_time(lambda: kv.put("c", "x"))
            print("goes on", flush=True)
            sys.stdin.readline()
            try:
                kv.put("late", "but not lost")
            except cm.exceptions.ClusterError as error:
                assert "head has not answered within 1 s" in str(error), error
                print("no head", flush=True)
            sys.stdin.readline()
            while in_time(lambda: kv.get("late")) is None:
                pass
            assert kv.get("late") == "but not lost" and kv.get("n") == "60" and kv.keys() == ["a", "c", "late", "n"]
            print("again")
        """),
        )
        assert second.stdin is not None

        def go_on() -> None:
            second.stdin.write("\n")
            second.stdin.flush()

        assert says(second) == "begun", second.communicate()
        os.kill(serving(here), signal.SIGKILL)
        go_on()
        assert says(second) == "goes on"
        pid = here.cluster()["head_pid"]
        os.kill(pid, signal.SIGKILL)  # with its supervisor: nobody starts it again
        wait_until(lambda: here.cluster()["error"])
        go_on()
        assert says(second) == "no head"
        here.run("start", "--head", "--port", head["address"].rpartition(":")[2])
        go_on()
        assert "again" in ends_well(second)
