"""Clusters as people begin and end them: the command line, real heads, real nodes."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cellmesh.scheduler.cluster.head import supervisor as head_process
from cellmesh.scheduler.cluster.net import address, keys, sockets, tokens
from cellmesh.scheduler.cluster.net import client as commands
from cellmesh.scheduler.system import processes
from cluster.store import redis_server
from support.drivers import serving
from support.real_machines import Machine, Network, cannot_make_networks, machines
from support.waiting import wait_until

Head = dict[str, Any]


@pytest.fixture(scope="module")
def here() -> Iterator[Machine]:
    """The machine of `head`."""
    with machines(Machine()) as (machine,):
        yield machine


@pytest.fixture(scope="module")
def head(here: Machine) -> Head:
    return here.head("--labels", "zone=eu,disk=fast")


@pytest.fixture
def there() -> Iterator[Machine]:
    """Another machine, which is part of nothing."""
    with machines(Machine()) as (machine,):
        yield machine


# ---------------------------------------------------------------- beginning and joining
def test_a_cluster_in_two_commands(here: Machine, head: Head, there: Machine) -> None:
    assert head["address"].startswith("127.0.0.1:")
    joined = there.join(head, here.run("token"), "--labels", "zone=us")
    assert joined["cluster"] == head["cluster"] and joined["address"] == head["address"]
    nodes = here.alive()
    assert nodes[head["session"]]["labels"] == {"zone": "eu", "disk": "fast"} and nodes[joined["session"]][
        "labels"
    ] == {"zone": "us"}
    assert all(
        row["total"]["CPU"] == row["free"]["CPU"] == 1 and row["size_bytes"] >= 64 << 20 for row in nodes.values()
    )
    assert there.cluster()["head_pid"] is None and here.cluster()["life"] == 1
    shown = there.run("status")
    for words in (head["cluster"], joined["session"], "a node of its cluster", "zone=us", "alive", "0 tasks wait"):
        assert words in shown, words
    assert (
        "XDG_RUNTIME_DIR" in (said := there.run("start", "--address", head["address"], status=1))
        and f"session {joined['session']}" in said
    )
    there.run("stop")
    wait_until(lambda: joined["session"] not in here.alive(), what="its node has said goodbye")
    assert {row["reason"] for row in here.cluster()["nodes"] if row["session"] == joined["session"]} == {"it has left"}
    again = there.json("start", "--address", head["address"], "--num-cpus", "1")
    assert again["session"] in here.alive(), "the machine is known: no token is needed"


def test_a_token_is_read_from_a_file_and_never_from_the_command_line(
    here: Machine, head: Head, there: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(here.run("token"))
    path.chmod(0o600)
    joined = there.json("start", "--address", head["address"], "--num-cpus", "1", CELLMESH_TOKEN_FILE=str(path))
    assert joined["session"] in here.alive()
    token = path.read_text().strip()
    everything = [
        Path(f"/proc/{pid}/{what}").read_bytes()
        for pid in (head_pid(here), *session_of(there))
        for what in ("cmdline", "environ")
    ]
    assert not any(token.encode() in text for text in everything)
    assert "unrecognized arguments" in there.run("start", "--address", head["address"], "--token", token, status=2)


def head_pid(machine: Machine) -> int:
    return int(machine.cluster()["head_pid"])


def session_of(machine: Machine) -> list[int]:
    (session,) = [row["session"] for row in machine.json("status") if "folder" in row]
    return processes.session_processes(session)


def test_what_is_wrong_with_a_token_is_said(here: Machine, head: Head, there: Machine) -> None:
    other = Machine()
    with machines(other):
        others = other.head()
        mine = here.run("token")
        for token, words in [
            ("", "no join token"),
            ("hello", "no join token"),
            (mine[:40], "cut off"),
            (others["token"], "not the head"),
        ]:
            assert words in there.run("start", "--address", head["address"], status=1, stdin=token), words
        assert "not the head" in there.run("start", "--address", others["address"], status=1, stdin=mine)
        elsewhere = Machine()
        with machines(elsewhere):
            elsewhere.join(head, mine)
            assert "has been used" in there.run("start", "--address", head["address"], status=1, stdin=mine)
    assert "cannot be reached" in there.run("start", "--address", others["address"], status=1, stdin=others["token"])
    assert not list(Path(there.folder, "cellmesh", "clusters").glob("*")), "nothing has been noted"


def test_a_token_that_was_never_made_is_refused_in_the_handshake(here: Machine, head: Head, there: Machine) -> None:
    made_up = tokens.Token(tokens.Token.parse(here.run("token")).head_key, bytes(16))
    assert "does not know this key" in there.run("start", "--address", head["address"], status=1, stdin=made_up.text)
    assert "unknown key" in Path(here.cluster_folder(), head_process.LOG_NAME).read_text()


def test_everything_is_private(here: Machine, head: Head) -> None:
    here.run("token")
    for path in [path for root in Path(here.folder).glob("cellmesh*") for path in (root, *root.rglob("*"))]:
        mode = path.lstat().st_mode
        if not stat.S_ISSOCK(mode) and not stat.S_ISLNK(mode):
            assert stat.S_IMODE(mode) & 0o077 == 0, f"{path}: {stat.S_IMODE(mode):o}"
    secret = json.loads(Path(here.cluster_folder(), "head.key").read_text())["secret"]
    said = Path(here.cluster_folder(), head_process.LOG_NAME).read_text() + here.run("status") + here.run("logs")
    assert secret not in said and "cmtoken" not in said


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--head", "--host", "0.0.0.0"], "name the one address"),
        (["--head", "--host", "::"], "name the one address"),
        (["--head", "--host", "192.0.2.1"], "192.0.2.1"),
        (["--head", "--port", "70000"], "HOST:PORT"),
        (["--address", "nowhere"], "HOST:PORT"),
        (["--address", "127.0.0.1:x"], "HOST:PORT"),
        (["--address", "127.0.0.1:1", "--control-store", "redis://h"], "belongs to --head"),
        (["--head", "--port", "0", "--control-store", "mysql://h"], "redis://"),
        (
            ["--head", "--labels", "cellmesh.x=1"],
            "start: --labels {'cellmesh.x': '1'}: must be a dict of names to texts",
        ),
        (
            ["--head", "--log-dir", "/proc/nowhere"],
            "start: --log-dir '/proc/nowhere': the folder cannot be made: No such file",
        ),
        (
            ["--head", "--host", "192.0.2.1"],
            "the head does not start: it has ended. Its last words:\nthe head cannot be here: cannot listen at "
            "tcp://192.0.2.1:7421: that is no address of this machine\n",
        ),
        (["--head", "--object-store-memory", "0.5K"], "--object-store-memory 512: must be"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused_and_leaves_nothing(
    there: Machine, arguments: list[str], words: str
) -> None:
    assert words in there.run("start", *arguments, status=1)
    assert not list(Path(there.folder).glob("cellmesh/clusters/*")) and not list(
        Path(there.folder).glob("cellmesh-*/session-*")
    )


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--head", "--address", "h:1"],
        ["--head", "--labels", "a"],
        ["--head", "--num-cpus", "-1"],
        ["--head", "--resources", "a=b"],
        ["--head", "--memory", "2X"],
        ["--head", "--memory", "-5"],
    ],
)
def test_wrong_usage(there: Machine, arguments: list[str]) -> None:
    assert "usage" in there.run("start", *arguments, status=2)


def test_commands_for_a_cluster_where_there_is_none(there: Machine) -> None:
    assert "begin a cluster with" in there.run("token", status=1)
    assert "part of no cluster" in there.run("drain", "x", status=1)


# ---------------------------------------------------------------- nodes that go
def test_a_node_that_is_drained_leaves(here: Machine, head: Head, there: Machine) -> None:
    joined = there.join(head, here.run("token"))
    number = here.alive()[joined["session"]]["node"]
    assert "no node" in here.run("drain", "ffff", status=1) and "There are " in here.run("drain", "ffff", status=1)
    host = here.alive()[joined["session"]]["hostname"]
    assert {row["name"] for row in here.alive().values()} == {host, f"{host}-2"}
    assert f"{host}-2" in here.run("status")
    assert "127.0.0.1:9: here that is no cluster's head; there is " + head["address"] in here.run(
        "drain", "--address", "127.0.0.1:9", host, status=1
    )
    assert "here that is no cluster's head" in here.run("token", "--address", "127.0.0.1:9", status=1)
    name = here.alive()[joined["session"]]["name"]
    assert f"node {name} ({number})" in there.run("drain", name)
    wait_until(lambda: joined["session"] not in here.alive(), what="it has left")
    wait_until(lambda: not list(Path(there.folder).glob("cellmesh-*/session-*")), what="its session has ended")
    assert head["session"] in here.alive()


def test_an_agent_that_dies_comes_back_as_another_node(there: Machine) -> None:
    first = there.head()
    before = there.alive()[first["session"]]["node"]
    (agent,) = [pid for pid in session_of(there) if processes.name_of(pid) == "cellmesh-agent"]
    os.kill(agent, signal.SIGKILL)
    wait_until(
        lambda: [
            row for row in there.cluster()["nodes"] if row["session"] == first["session"] and row["node"] != before
        ]
    )
    wait_until(
        lambda: [
            row
            for row in there.cluster()["nodes"]
            if row["node"] == before and "its processes have ended" in row["reason"]
        ]
    )


# ---------------------------------------------------------------- heads that go
def test_the_head_dies_and_lives_on(here: Machine, head: Head) -> None:
    before, life = here.alive(), here.cluster()["life"]
    os.kill(serving(here), signal.SIGKILL)
    wait_until(
        lambda: (
            here.cluster().get("life") == life + 1
            and here.alive().keys() == before.keys()
            and not any(row["reason"] for row in here.alive().values())
        ),
        what="everybody has registered again",
    )
    assert [row["node"] for row in here.alive().values()] == [row["node"] for row in before.values()]


def test_a_head_that_is_killed_with_its_supervisor_is_started_again_by_hand() -> None:
    with machines(Machine()) as (machine,):
        first = machine.head()
        node = machine.alive()[first["session"]]["node"]
        public = json.loads(Path(machine.cluster_folder(), "head.key").read_text())["public"]
        pid = machine.cluster()["head_pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: machine.cluster()["head_pid"] is None)
        assert "cannot be reached" in machine.cluster()["error"]
        port = first["address"].rpartition(":")[2]
        shown = machine.run("status")
        assert f"{first['address']}, which does not run)" in shown
        assert f"`cellmesh start --head --host 127.0.0.1 --port {port}` goes on with it" in shown
        again = machine.json("start", "--head", "--port", port)
        assert (again["cluster"], again["session"]) == (first["cluster"], first["session"])
        assert json.loads(Path(machine.cluster_folder(), "head.key").read_text())["public"] == public
        wait_until(lambda: not machine.alive()[first["session"]]["reason"])
        assert machine.cluster()["life"] == 2 and machine.alive()[first["session"]]["node"] == node
        assert "runs at" in machine.run("start", "--head", "--port", port, status=1)
        os.kill(machine.cluster()["head_pid"], signal.SIGTERM)
        wait_until(lambda: machine.cluster()["head_pid"] is None)
        assert machine.json("start", "--head", "--port", port)["cluster"] == first["cluster"]
        assert machine.cluster()["life"] == 3


def test_a_head_with_its_control_store_in_redis() -> None:
    with redis_server.running() as server, machines(Machine()) as (machine,):
        first = machine.head("--control-store", f"unix://{server.socket}")
        node = machine.alive()[first["session"]]["node"]
        pid = serving(machine)
        server.kill()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: "cannot go on" in Path(machine.cluster_folder(), head_process.LOG_NAME).read_text())
        server.start()
        wait_until(lambda: machine.cluster().get("life") == 2 and not machine.alive()[first["session"]]["reason"])
        assert machine.alive()[first["session"]]["node"] == node
        assert "another control store" in stopped_and_started(
            machine, first["address"], f"unix://{server.socket}-other"
        )
        machine.run("stop")
        import redis

        with redis.Redis(unix_socket_path=str(server.socket)) as client:
            assert client.keys() == []


def stopped_and_started(machine: Machine, address: str, store: str) -> str:
    os.kill(machine.cluster()["head_pid"], signal.SIGTERM)
    wait_until(lambda: machine.cluster()["head_pid"] is None)
    port = address.rpartition(":")[2]
    refused = machine.run("start", "--head", "--port", port, "--control-store", store, status=1)
    machine.run("start", "--head", "--port", port)
    return refused


def test_stopping_the_head_ends_the_nodes_of_the_cluster(there: Machine) -> None:
    with machines(Machine()) as (machine,):
        first = machine.head()
        there.join(first, first["token"])
        assert f"cluster {first['cluster']} has ended" in machine.run("stop", first["cluster"])
        wait_until(lambda: not list(Path(there.folder).glob("cellmesh-*/session-*")), what="the node has ended, too")
        assert not list(Path(machine.folder, "cellmesh", "clusters").iterdir())


def test_stopping_from_another_folder_leaves_the_head_that_was_started_here() -> None:
    with machines(Machine(), Machine()) as (machine, other):
        first = machine.head()
        beside = {"XDG_STATE_HOME": machine.folder, "XDG_RUNTIME_DIR": other.folder}
        joined = machine.json("start", "--address", first["address"], "--num-cpus", "1", **beside)
        for arguments, word in ((("--dry-run",), "would end"), ((), "ends")):
            said = machine.run("stop", *arguments, **beside)
            assert f"session {joined['session']} {word}" in said and first["session"] not in said
            assert (
                f"cluster {first['cluster']} (head at {first['address']}, process " in said
                and "goes on" in said
                and machine.folder in said
            )
            assert (
                "with 2 nodes" in said
                and f"`cellmesh stop {first['cluster']}`" in said
                and "`cellmesh stop --head`" in said
            )
            assert (joined["session"] in machine.alive()) == bool(arguments)
        assert list(machine.alive()) == [first["session"]]
        said = machine.run("stop", "--head", **beside)
        assert (
            f"cluster {first['cluster']} (head at {first['address']}" in said
            and f"cluster {first['cluster']} has ended" in said
        )
        assert not list(Path(machine.folder, "cellmesh", "clusters").iterdir())


def test_a_head_does_not_start_without_its_keys(there: Machine) -> None:
    def refusal(*arguments: str) -> str:
        done = there.python("-m", "cellmesh.scheduler.cluster.head.supervisor", *arguments)
        said = done.communicate(timeout=20)[1]
        assert done.returncode == head_process.UNUSABLE
        return said

    assert "without keys" in refusal()
    assert "without its keys" in refusal(there.folder)
    cluster = new_cluster(there)
    Path(cluster.path, "head.key").chmod(0o644)
    assert "without its keys" in refusal(cluster.path) and "chmod 600" in refusal(cluster.path)
    Path(cluster.path, "head.key").unlink()
    assert "without its keys" in refusal(cluster.path)


def new_cluster(machine: Machine) -> keys.Cluster:
    made = machine.python(
        "-c",
        "from cellmesh.scheduler.cluster.net import keys, sockets; print(keys.Cluster.begin('127.0.0.1:7', "
        "sockets.new_pair).path)",
    )
    return keys.Cluster(made.communicate(timeout=20)[0].strip())


def test_there_is_no_second_head(here: Machine, head: Head) -> None:
    done = here.python("-m", "cellmesh.scheduler.cluster.head.supervisor", str(here.cluster_folder()))
    assert "runs already" in done.communicate(timeout=20)[1] and done.returncode == head_process.UNUSABLE


def test_the_head_never_unpickles() -> None:
    code = """
        import pickle, collections
        from cellmesh.scheduler.cluster.head import server as head_server
        data = pickle.dumps(collections.OrderedDict)
        head_server.never_unpickle()
        try:
            pickle.loads(data)
        except RuntimeError as error:
            print(error)
        """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[8:] for line in code.splitlines())],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert "never unpickles" in done.stdout, done.stderr


def test_garbage_at_the_door_costs_nothing_and_holds_up_nobody(here: Machine, head: Head) -> None:
    pid, where = serving(here), address.parse(head["address"])
    before, memory = len(os.listdir(f"/proc/{pid}/fd")), resident_bytes(pid)
    generator = random.Random(1)
    for n in range(1000):
        with socket.create_connection(where) as stranger:
            greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" if n % 2 else b""
            stranger.sendall(greeting + generator.randbytes(generator.randrange(300)))
    idle = [socket.create_connection(where) for _ in range(200)]
    try:
        assert here.alive().keys() == {head["session"]}
    finally:
        for stranger in idle:
            stranger.close()
    wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= before, what="its descriptors are as before")
    assert resident_bytes(pid) - memory < 10 << 20 and serving(here) == pid


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- notebooks
DRIVER = """
import sys, cellmesh as cm
context = cm.init(sys.argv[1] or None, num_cpus=1, object_store_memory=64 << 20)
print(context.address_info["node_id"], flush=True)
print(cm.get(cm.remote(lambda: 6 * 7).remote()), flush=True)
sys.stdin.read()
"""


def test_a_drivers_machine_is_a_node(here: Machine, head: Head) -> None:
    for where, variable in ((f"tcp://{head['address']}", ""), ("", f"tcp://{head['address']}")):
        driver = here.python("-c", DRIVER, where, **({"CELLMESH_ADDRESS": variable} if variable else {}))
        assert driver.stdout is not None
        session = driver.stdout.readline().strip()
        assert driver.stdout.readline().strip() == "42"
        wait_until(lambda: session in here.alive(), what="it has joined")
        driver.communicate("", timeout=20)
        assert driver.returncode == 0
        wait_until(lambda: session not in here.alive(), what="it has left")


def test_a_drivers_machine_joins_with_a_token_in_a_file(
    here: Machine, head: Head, there: Machine, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(here.run("token"))
    path.chmod(0o600)
    for _ in range(2):  # the second time the token has been used, as when a notebook's kernel is restarted
        driver = there.python("-c", DRIVER, f"tcp://{head['address']}", CELLMESH_TOKEN_FILE=str(path))
        assert driver.stdout is not None
        session = driver.stdout.readline().strip()
        wait_until(lambda: session in here.alive())
        assert not driver.communicate("", timeout=20)[1]


@pytest.mark.parametrize(
    "where, error, words",
    [
        ("tcp://127.0.0.1:9", "AuthenticationError", "no join token"),
        ("tcp://nowhere", "ValueError", "HOST:PORT"),
        ("tcp://", "ValueError", "HOST:PORT"),
        ("tcp://h:99999", "ValueError", "HOST:PORT"),
    ],
)
def test_an_address_without_a_cluster_is_called_so(there: Machine, where: str, error: str, words: str) -> None:
    driver = there.python("-c", DRIVER, where)
    said = driver.communicate("", timeout=20)[1]
    assert driver.returncode == 1 and f"{error}: init(address='{where}')" in said and words in said, said


# ---------------------------------------------------------------- real networks
FLOOD = """
import collections, json, os, sys, threading, cellmesh as cm
cm.init(sys.argv[1], num_cpus=1, object_store_memory=64 << 20)
n_nodes = int(sys.argv[2])

@cm.remote
def where(i):
    threading.Event().wait(0.02)
    return os.environ["CELLMESH_SESSION"]

ran_on = collections.Counter()
while len(ran_on) < n_nodes:  # the first tasks may be over before all nodes are known
    ran_on = collections.Counter(cm.get([where.remote(i) for i in range(80)]))
print(json.dumps(ran_on))
"""
NO_NETWORK = cannot_make_networks()


@pytest.mark.skipif(bool(NO_NETWORK), reason=NO_NETWORK)
def test_machines_with_networks_of_their_own() -> None:
    with Network(3) as network:
        first, second, third = network.machines
        head = first.head("--node-timeout", "30")
        assert head["address"].startswith("10.117.0.1:")
        joined = [machine.join(head, first.run("token")) for machine in (second, third)]
        nodes = first.alive()
        assert [nodes[j["session"]]["endpoint"].split(":")[1] for j in joined] == ["//10.117.0.2", "//10.117.0.3"]
        network.pull(2)
        assert "cannot be reached" in second.cluster()["error"], "a cable without a switch tells nobody anything"
        wait_until(lambda: first.alive()[joined[0]["session"]]["reason"] == "not connected")
        network.plug(2)
        wait_until(lambda: not first.alive()[joined[0]["session"]]["reason"], 20)
        everybody = {head["session"], *(j["session"] for j in joined)}
        assert first.alive().keys() == everybody
        driver = first.python("-c", FLOOD, f"tcp://{head['address']}", "4")
        ran_on = json.loads(driver.communicate("", timeout=60)[0])
        assert len(ran_on) == 4 and everybody < ran_on.keys() and sum(ran_on.values()) == 80


# ---------------------------------------------------------------- conversations
def test_who_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        cluster = keys.Cluster.begin(f"127.0.0.1:{silent.getsockname()[1]}", sockets.new_pair)
        with (
            pytest.raises(commands.ClusterError, match=r"nobody answers there \(waited 0.1 s\)"),
            commands.talk(cluster, 0.1) as head,
        ):
            head.status()
    with pytest.raises(commands.ClusterError, match="nobody listens there"), commands.talk(cluster) as head:
        head.status()
