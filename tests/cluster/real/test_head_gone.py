"""The head is gone for good, or is only asleep: with real processes, and times that are shorter than usual."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from support.drivers import ends_well, program, says, serving, tell
from support.real_machines import Machine, agent_of, logs_of, machines, processes_of
from support.waiting import wait_until

NODE_S, HEAD_S = 2.0, 3.0
TIMEOUTS = ("--node-timeout", str(NODE_S), "--head-timeout", str(HEAD_S))


def test_a_head_that_is_gone_for_good_ends_nodes_when_they_have_finished_and_no_driver() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head(*TIMEOUTS)
        joined = there.join(head, here.run("token"), "--resources", "license=1")
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import kv

            @cm.remote(resources={"license": 1})
            def long():
                with open(os.environ["XDG_RUNTIME_DIR"] + "/begun", "w"):
                    pass
                while not os.path.exists(os.environ["XDG_RUNTIME_DIR"] + "/go"):
                    time.sleep(0.02)
                return "finished", np.ones(100_000)

            @cm.remote
            def local(i):
                return i + 1

            wait_for_nodes(3)
            assert kv.put("a", "1")
            ref = long.remote()
            print("begun", flush=True)
            sys.stdin.readline()
            for what in (
                lambda: kv.get("a"),
                lambda: kv.put("b", "1"),
                lambda: cm.get_actor("none", namespace="n"),
                lambda: cm.remote(type("A", (), {})).options(name="x", namespace="n").remote(),
                lambda: cm.state.list_jobs(),
            ):
                try:
                    what()
                    print("nothing is raised")
                except cm.exceptions.HeadUnreachableError as error:
                    print(
                        "typed",
                        "the head of the cluster cannot be asked: the head has not been reached for 3 s" in str(error),
                        flush=True,
                    )
            assert cm.get([local.remote(i) for i in range(50)]) == list(range(1, 51))
            assert sum(node["Alive"] for node in cm.nodes()) >= 1
            print("local", flush=True)
            word, array = cm.get(ref, timeout=30)
            print(word, array.sum(), flush=True)
            sys.stdin.readline()
            begun = time.monotonic()
            while True:
                try:
                    assert kv.get("a") == "1"
                    break
                except cm.exceptions.HeadUnreachableError:
                    assert time.monotonic() < begun + 20
                    time.sleep(0.05)
            assert cm.get([local.remote(i) for i in range(50)]) == list(range(1, 51))
            print("back")
        """,
        )
        assert says(driver) == "begun"
        begun = Path(there.folder, "begun")
        wait_until(begun.exists, 20)
        agent = agent_of(there)
        os.kill(here.cluster()["head_pid"], signal.SIGKILL)
        wait_until(lambda: not processes_of(here), 30, "the idle node has ended, with all of its processes")
        wait_until(lambda: "this node is drained" in logs_of(there), 30)
        wait_until(lambda: "Nothing new goes to other machines" in logs_of(mine), 30)
        tell(driver, "go")
        found = [says(driver) for _ in range(6)]
        assert found == ["typed True"] * 5 + ["local"], (
            found,
            driver.communicate() if driver.poll() is not None else "",
        )
        assert Path(f"/proc/{agent}").exists(), "it waits for what runs there"
        Path(there.folder, "go").touch()
        assert says(driver) == "finished 100000.0"
        wait_until(lambda: not processes_of(there), 30, "that one has ended, too")
        for machine, session in ((here, head["session"]), (there, joined["session"])):
            (said,) = (machine.cluster_folder() / "nodes.log").read_text().splitlines()
            assert (
                f"session {session} has left: the head has not been reached for 3 s: this node has finished what it "
                "ran and stops" in said
            )
        here.run("start", "--head", "--port", head["address"].rpartition(":")[2])
        tell(driver, "go")
        assert "back" in ends_well(driver)


def test_a_head_that_was_asleep_declares_nobody_dead() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head(*TIMEOUTS[:2])
        joined = there.join(head, here.run("token"))
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            wait_for_nodes(3)
            print("busy", flush=True)
            import select
            n = 0
            while not select.select([sys.stdin], [], [], 0)[0]:
                refs = [part.options(max_retries=0).remote(i) for i in range(20)]
                assert [values[0] for values, _ in cm.get(refs, timeout=60)] == list(range(20))
                n += 1
            print(n, "rounds")
        """,
        )
        assert says(driver) == "busy"
        nodes = set(here.alive())
        for pid, asleep_s in ((serving(here), 2 * NODE_S), (agent_of(there), 0.6 * NODE_S)):
            os.kill(pid, signal.SIGSTOP)
            end = time.monotonic() + asleep_s
            wait_until(lambda: time.monotonic() >= end, asleep_s + 5)
            os.kill(pid, signal.SIGCONT)
            end = time.monotonic() + 1.5 * NODE_S  # by then it would have been judged
            wait_until(lambda: time.monotonic() >= end, 5 * NODE_S)
            assert set(here.alive()) == nodes and "is no member any more" not in logs_of(here)
        tell(driver, "stop")
        print(ends_well(driver))
        os.kill(agent_of(there), signal.SIGSTOP)
        wait_until(lambda: joined["session"] not in here.alive(), 10, "the head does judge")
        os.kill(agent_of(there), signal.SIGCONT)
        wait_until(lambda: not processes_of(there), 20, "the fenced node has ended")
