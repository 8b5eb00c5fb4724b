"""Programs on several nodes, with real heads, agents and networks; and what becomes of them when machines go."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.drivers import ends_well, program, says
from support.real_machines import Machine, Network, cannot_make_networks, kill_sessions, machines
from support.waiting import wait_until


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[Machine, Machine, dict[str, Any]]]:
    """Two nodes without a driver: the head's machine and another one."""
    with machines(Machine(), Machine()) as (here, there):
        head = here.head()
        there.join(head, here.run("token"))
        yield here, there, head


def test_tasks_go_where_there_is_room_and_what_they_print_comes_home(
    cluster: tuple[Machine, Machine, dict[str, Any]],
) -> None:
    here, there, head = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            f"""
            folders = {[here.folder, there.folder, mine.folder]}
        """
            + """
            @cm.remote
            def inner(i):
                print("says-inner", i)

            @cm.remote
            def speak(i):
                print("says-outer", i, os.environ["XDG_RUNTIME_DIR"])
                open(os.environ["XDG_RUNTIME_DIR"] + "/spoke", "w").close()
                while not all(os.path.exists(folder + "/spoke") for folder in folders):  # however fast one of them is
                    time.sleep(0.01)
                cm.get(inner.remote(i))
                return i

            wait_for_nodes(3)
            assert cm.get([speak.remote(i) for i in range(30)]) == list(range(30))
            parts = [part.remote(i) for i in range(60)]
            assert cm.get([total.remote(*parts[i : i + 6]) for i in range(0, 60, 6)]) == [
                30_000.0 * sum(range(i, i + 6)) for i in range(0, 60, 6)
            ]
            try:
                cm.get(cm.remote(lambda: 1 / 0).remote())
            except ZeroDivisionError as error:
                print(
                    "division",
                    type(error).__name__,
                    error.node == os.uname().nodename,
                    f"on {error.node}." in str(error),
                )
            time.sleep(0.5)
        """,
            CPUS="1",
        )
        out = ends_well(driver)
    assert out.count("says-inner") == out.count("says-outer") == 30, out
    assert re.search(r"division \S+ True True", out) and "(worker pid=" not in out and "(inner pid=" in out, out
    assert all(folder in out for folder in (here.folder, there.folder, mine.folder))
    wait_until(
        lambda: all(row["free"] == row["total"] for row in here.alive().values()), 20, "all places are free again"
    )


def test_arrays_are_a_task_s_own_on_another_machine_too_and_views_where_it_asks_for_them(
    cluster: tuple[Machine, Machine, dict[str, Any]],
) -> None:
    here, _, head = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            @cm.remote
            def own(array):
                array += 1
                return float(array.sum()), os.environ["XDG_RUNTIME_DIR"] != folder

            @cm.remote(readonly=True)
            def views(array):
                return float(array.sum()), array.flags.writeable

            folder = os.environ["XDG_RUNTIME_DIR"]
            ref = cm.put(np.zeros(1 << 20))
            print(*cm.get(own.remote(ref)), *cm.get(views.remote(ref)), cm.get(ref).any())
            """,
            CPUS="0",
        )
        assert ends_well(driver).split() == [str(float(1 << 20)), "True", "0.0", "False", "False"]


def test_an_error_keeps_its_class_on_its_way_through_machines(cluster: tuple[Machine, Machine, dict[str, Any]]) -> None:
    here, _, head = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import NodeAffinitySchedulingStrategy as On

            class OwnError(Exception):
                def __init__(self, code, *, detail):
                    super().__init__(f"code {code}")
                    self.code, self.detail = code, detail

            @cm.remote
            def pass_on(depth, ids, fail):
                if not depth:
                    fail()
                return cm.get(
                    pass_on.options(scheduling_strategy=On(ids[depth % len(ids)])).remote(depth - 1, ids, fail)
                )

            @cm.remote
            class Middle:
                def call(self, *args):
                    return cm.get(pass_on.remote(*args))

            def divide():
                1 / 0

            def raise_own():
                raise OwnError(3, detail="d")

            def cancelled():
                ref = pass_on.options(num_cpus=1000).remote(0, [], divide)
                cm.cancel(ref)
                cm.get(ref)

            while len(ids := [node["NodeID"] for node in cm.nodes() if node["Alive"]]) < 3:
                time.sleep(0.02)
            middle = Middle.options(scheduling_strategy=On(ids[-1])).remote()
            for n_more, submit in ((0, pass_on.remote), (1, middle.call.remote)):
                for fail, kind in (
                    (divide, ZeroDivisionError),
                    (raise_own, OwnError),
                    (cancelled, cm.exceptions.TaskCancelledError),
                ):
                    try:
                        cm.get(submit(5, ids, fail), timeout=60)
                    except kind as error:
                        assert type(error.cause) is kind and isinstance(error, cm.exceptions.TaskError), type(
                            error.cause
                        )
                        text = str(error)
                        assert text.count("'pass_on'") == 6 + 2 * (fail is cancelled), text
                        assert text.count("with pid") == text.count(f" on {os.uname().nodename}") == 6 + n_more, text
            flag = os.environ["XDG_RUNTIME_DIR"] + "/failed_once"

            def once():
                if not os.path.exists(flag):
                    open(flag, "w").close()
                    1 / 0

            assert (
                cm.get(
                    cm.remote(max_retries=1, retry_exceptions=[ZeroDivisionError])(lambda: [once(), 3][1]).remote(),
                    timeout=60,
                )
                == 3
            )
            print("passed")
        """,
            CPUS="1",
        )
        assert "passed" in ends_well(driver)


def test_nodes_by_their_numbers_and_what_is_said_of_those_that_leave(
    cluster: tuple[Machine, Machine, dict[str, Any]],
) -> None:
    here, _, head = cluster
    with machines(Machine(), Machine()) as (mine, leaver):
        joined = leaver.join(head, here.run("token"), "--labels", "zone=leaving")
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import NodeAffinitySchedulingStrategy as On, list_named_actors
            where = cm.remote(lambda seconds=0: (time.sleep(seconds), cm.get_runtime_context().get_node_id())[1])
            leaver, = [node for node in cm.nodes() if node["Labels"].get("zone") == "leaving"]
            for name in (
                leaver["NodeID"],
                leaver["Number"],
                leaver["Number"][:5],
                f"{leaver['NodeName']} {leaver['Number'][:5]}",
            ):
                assert cm.get(where.options(scheduling_strategy=On(name)).remote()) == leaver["NodeID"], name
            try:
                cm.get(where.options(scheduling_strategy=On("nosuch")).remote())
            except cm.exceptions.TaskUnschedulableError as error:
                assert "id, name or number 'nosuch' (cellmesh.nodes() lists them)" in str(error), error
            runs = where.options(scheduling_strategy=On(leaver["NodeID"])).remote(1e9)
            while not any(task["state"] == "running" for task in cm.state.list_tasks()):
                time.sleep(0.02)
            try:
                cm.get(runs, timeout=0.1)
            except cm.exceptions.GetTimeoutError as error:
                assert "which runs on another machine" in str(error), error
            cm.cancel(runs)
            nowhere = where.options(label_selector={"zone": "mars"}).remote()
            print("drain", flush=True)
            sys.stdin.readline()
            assert [node["Reason"] for node in cm.nodes() if node["NodeID"] == leaver["NodeID"]] == ["it has left"]
            shown = repr(cm.init(address="tcp://" + os.environ["HEAD"], ignore_reinit_error=True))
            assert "lost" not in shown, shown
        """,
            CPUS="1",
        )
        assert says(driver) == "drain", driver.communicate()
        here.run("drain", joined["session"])
        wait_until(lambda: joined["session"] not in here.alive(), what="it has left")
        out, err = driver.communicate("\n", timeout=60)
    assert driver.returncode == 0 and "lost" not in err, (out, err)
    assert re.search(r"labelled zone=mars; none of the \d nodes is\.$", err, re.MULTILINE), err


def test_what_begins_away_and_runs_at_home_prints_once(cluster: tuple[Machine, Machine, dict[str, Any]]) -> None:
    here, there, head = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import NodeAffinitySchedulingStrategy as On
            home = cm.get_runtime_context().get_node_id()

            @cm.remote
            def at_home():
                print("it", "says", os.environ["XDG_RUNTIME_DIR"])

            @cm.remote
            def away():
                cm.get(at_home.options(scheduling_strategy=On(home, soft=False)).remote())
                return os.environ["XDG_RUNTIME_DIR"]

            print(cm.get(away.options(scheduling_strategy=On(os.environ["THERE"], soft=False)).remote()))
            time.sleep(0.5)
        """,
            CPUS="1",
            THERE=next(iter(here.alive())),
        )
        out = ends_well(driver)
    assert out.count("it says") == 1 and f"it says {mine.folder}" in out, out
    assert here.folder in out or there.folder in out


def test_a_driver_knows_the_machines_and_where_its_tasks_ran(cluster: tuple[Machine, Machine, dict[str, Any]]) -> None:
    here, _, head = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import NodeAffinitySchedulingStrategy as On
            wait_for_nodes(3)
            nodes = [node for node in cm.nodes() if node["Alive"]]  # others have left before
            assert [node["ThisNode"] for node in nodes] == [True, False, False], nodes
            assert len({node["Number"] for node in nodes}) == 3 and cm.cluster_resources()["CPU"] == 3
            cm.get(part.options(num_cpus=0.5).remote(1))
            tasks = cm.state.list_tasks(filters=[("name", "=", "part")])
            places = {task["node"] for task in tasks if task["state"] == "finished"}
            assert len(places) == 3, places
            away = [
                task
                for task in tasks
                if task["node"] and task["node"].split()[-1] != nodes[0]["Number"][:4] and task["pid"]
            ]
            assert away and all(task["seconds"] >= 0.02 for task in away if task["seconds"] is not None)
            try:
                cm.state.get_log(away[0]["task"])
            except ValueError as error:
                assert "ran on" in str(error) and "there" in str(error), error
            shown = repr(cm.init(address="tcp://" + os.environ["HEAD"], ignore_reinit_error=True))
            assert "3 nodes" in shown and "this one" in shown, shown
            at = cm.remote(
                lambda: [
                    (node["NodeID"], node["State"], node["ThisNode"], node["Resources"]["CPU"])
                    for node in cm.nodes()
                    if node["Alive"]
                ]
            )
            for node in nodes:
                seen = cm.get(at.options(scheduling_strategy=On(node["NodeID"], soft=False), num_cpus=0.5).remote())
                assert sorted(seen) == sorted(
                    (n["NodeID"], "alive", n is node, n["Resources"]["CPU"]) for n in nodes
                ), seen
                assert seen[0][2], "this one is first"
            print("all known")
        """,
            CPUS="1",
        )
        assert "all known" in ends_well(driver)


def test_what_needs_another_machine_s_resources_goes_there(cluster: tuple[Machine, Machine, dict[str, Any]]) -> None:
    here, _, head = cluster
    with machines(Machine(), Machine()) as (mine, special):
        special.join(head, here.run("token"), "--resources", "license=1")
        out = ends_well(
            program(
                mine,
                head,
                here.run("token"),
                """
            licensed = part.options(resources={"license": 1})
            print({where for _, where in cm.get([licensed.remote(i) for i in range(5)])})
        """,
            )
        )
        assert special.folder in out and mine.folder not in out


def test_a_driver_that_is_killed_leaves_nothing_running_elsewhere(
    cluster: tuple[Machine, Machine, dict[str, Any]],
) -> None:
    here, _, head = cluster
    with machines(Machine()) as (mine,):
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            @cm.remote
            def sleep():
                time.sleep(1000)

            refs = [sleep.remote() for _ in range(10)]
            while sum(row["state"] == "running" for row in __import__("cellmesh.state").state.list_tasks()) < 3:
                time.sleep(0.01)
            print("asleep", flush=True)
            cm.get(refs)
        """,
        )
        assert says(driver) == "asleep"
        driver.kill()
        driver.communicate()
        wait_until(lambda: all(row["free"] == row["total"] for row in here.alive().values()), 20, "they have ended")


def test_a_machine_is_lost_halfway_and_the_result_is_exact() -> None:
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head()
        there.join(head, here.run("token"))
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            wait_for_nodes(3)
            parts = [part.remote(i) for i in range(300)]
            sums = [total.remote(*parts[i:i + 10]) for i in range(0, 300, 10)]
            del parts[::2]
            cm.wait(sums, num_returns=10)
            print("half", flush=True)
            assert cm.get(sums, timeout=80) == [30_000.0 * sum(range(i, i + 10)) for i in range(0, 300, 10)]
            assert sum(values[0] for values, _ in cm.get(parts, timeout=80)) == sum(range(1, 300, 2))
            print("exact")
        """,
        )
        assert says(driver) == "half"
        kill_sessions(there)
        assert "exact" in ends_well(driver)
        wait_until(lambda: len(here.alive()) == 1, 20, "the head knows")


def test_the_head_is_killed_and_nobody_notices() -> None:
    with machines(Machine(), Machine()) as (here, mine):
        head = here.head()
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            wait_for_nodes(2)
            refs = [part.remote(i) for i in range(200)]
            print("begun", flush=True)
            assert sum(values[0] for values, _ in cm.get(refs, timeout=80)) == sum(range(200))
            print("exact", flush=True)
            time.sleep(1)
            assert sum(values[0] for values, _ in cm.get([part.remote(i) for i in range(50)], timeout=80)) == sum(
                range(50)
            )
            print("again")
        """,
        )
        assert says(driver) == "begun"
        os.kill(here.cluster()["head_pid"], signal.SIGKILL)  # with its supervisor
        assert says(driver) == "exact"
        here.run("start", "--head", "--port", head["address"].rpartition(":")[2], status=0)
        assert "again" in ends_well(driver)


@pytest.mark.skipif(bool(cannot_make_networks()), reason=f"NO TEST OF REAL NETWORKS: {cannot_make_networks()}")
def test_a_cable_is_pulled_and_the_node_behind_it_is_fenced() -> None:
    with Network(3) as network:
        here, there, mine = network.machines
        head = here.head()
        joined = there.join(head, here.run("token"))
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            wait_for_nodes(3)
            parts = [part.remote(i) for i in range(200)]
            sums = [total.remote(*parts[i:i + 10]) for i in range(0, 200, 10)]
            del parts
            cm.wait(sums, num_returns=5)
            print("half", flush=True)
            assert cm.get(sums, timeout=100) == [30_000.0 * sum(range(i, i + 10)) for i in range(0, 200, 10)]
            print("exact")
        """,
        )
        assert says(driver) == "half"
        network.pull(2)
        assert "exact" in ends_well(driver)
        wait_until(lambda: joined["session"] not in here.alive(), 30, "it has been declared dead")
        network.plug(2)
        wait_until(lambda: not list(Path(there.folder).glob("cellmesh*/session-*")), 30, "the fenced node has ended")


@pytest.mark.skipif(bool(cannot_make_networks()), reason=f"NO TEST OF REAL NETWORKS: {cannot_make_networks()}")
def test_a_large_value_for_all_leaves_its_machine_twice() -> None:
    with Network(5) as network:
        here, *others, mine = network.machines
        head = here.head()
        for there in others:
            there.join(head, here.run("token"))
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            from cellmesh.util import NodeAffinitySchedulingStrategy

            @cm.remote(num_cpus=1)
            def weigh(x):
                return float(x.sum())

            def everywhere(x):
                return cm.get(
                    [
                        weigh.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(x)
                        for node in nodes
                    ]
                )

            while len(nodes := [row["NodeID"] for row in cm.nodes() if row["Resources"].get("CPU")]) < 4:
                time.sleep(0.01)
            assert everywhere(np.ones(3)) == [3.0] * 4
            print("ready", flush=True)
            sys.stdin.readline()
            assert everywhere(cm.put(np.ones(3 << 20))) == [3 << 20] * 4
        """,
            CPUS="0",
        )
        assert says(driver) == "ready"
        before = network.sent_bytes(mine)
        assert driver.stdin is not None
        driver.stdin.write("go\n")
        driver.stdin.flush()
        ends_well(driver)
        assert (2 * 24 << 20) < network.sent_bytes(mine) - before < (3 * 24 << 20), "of 24 MiB, to four machines"


def test_what_must_run_elsewhere_does_not_run_here_when_the_cluster_has_ended() -> None:
    with machines(Machine(), Machine()) as (here, mine):
        head = here.head("--labels", "zone=eu")
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            where = cm.remote(lambda: cm.get_runtime_context().get_node_id())
            there = where.options(label_selector={"zone": "eu"})
            assert cm.get(there.remote()) != cm.get_runtime_context().get_node_id()
            print("end", flush=True)
            context = cm.init(ignore_reinit_error=True)
            while "cluster: none any more" not in repr(context):
                time.sleep(0.02)
            for task in (there, where.options(num_cpus=0.5, label_selector={"zone": "eu"})):
                try:
                    cm.get(task.remote(), timeout=20)
                except cm.exceptions.TaskUnschedulableError as error:
                    print("refused:", error)
            assert cm.get(where.remote()) == cm.get_runtime_context().get_node_id()
        """,
            CPUS="1",
        )
        assert says(driver) == "end", driver.communicate()
        here.run("stop")
        out = ends_well(driver)
    assert out.count("refused:") == 2, out
    assert re.search(
        r"must run where zone=eu holds, and this session is not part of its cluster any more: leave", out
    ), out


def test_a_node_without_a_driver_keeps_what_its_tasks_print(tmp_path: Path) -> None:
    with machines(Machine(), Machine()) as (here, mine):
        head = here.head("--labels", "zone=eu", "--cpus", "1", "--log-dir", str(tmp_path / "printed"))
        driver = program(
            mine,
            head,
            here.run("token"),
            """
            cm.get(cm.remote(print).options(label_selector={"zone": "eu"}).remote("kept there"))
        """,
        )
        ends_well(driver)
        wait_until(lambda: any("kept there" in path.read_text() for path in (tmp_path / "printed").iterdir()))
