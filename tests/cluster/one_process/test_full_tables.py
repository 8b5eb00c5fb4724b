"""A segment without room for what comes from other machines: what needs the room ends or waits, everything else goes
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cellmesh.scheduler.cluster import messages
from cluster.one_process.machines import Machines, machines
from support import real_machines
from support.drivers import ends_well, says
from support.real_machines import Machine, agent_of, logs_of
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import exceptions
from cellmesh.session.current import current

pytestmark = pytest.mark.filterwarnings("ignore::cellmesh.exceptions.InfeasibleResourcesWarning")
MB = 1 << 20


@cm.remote
def double(x: Any) -> Any:
    return x * 2


@cm.remote
def total(x: Any) -> float:
    return float(x.sum())


@cm.remote
def refs_to(n: int) -> list[Any]:
    return [cm.put(i) for i in range(n)]


@cm.remote
class Adder:
    def add(self, refs: list[Any]) -> int:
        return sum(cm.get(refs))


def all_there_are(make: Callable[[], Any]) -> list[Any]:
    """Of something, until its table is full."""
    found = []
    with suppress(exceptions.StoreLimitError):
        while True:
            found.append(make())
    return found


@contextmanager
def full_of_tasks() -> Iterator[None]:
    """No task finds room at home any more."""
    refs = all_there_are(lambda: double.options(resources={"nowhere": 1}).remote(1))
    yield
    for ref in refs:
        cm.cancel(ref)


def on_disk() -> tuple[Any, list[Any]]:
    """A value of 24 MB that has gone to disk, as what fills the memory is looked at."""
    moved, looked_at, stats = cm.put(np.ones(3 * MB)), [], current().client.stats
    while stats()["offloaded_bytes"] < 24 * MB or stats()["capacity_bytes"] - stats()["used_bytes"] >= 24 * MB:
        looked_at.append(cm.get(cm.put(np.ones(MB))))
    return moved, looked_at


@pytest.mark.own_interpreter
def test_what_lies_on_disk_waits_for_room_in_memory_and_nobody_else_does() -> None:
    with machines(2, at_home={"object_store_memory": 64 * MB}) as two:
        moved, looked_at = on_disk()
        ref = total.remote(moved)
        wait_until(lambda: any(isinstance(message, messages.Fetch) for message in two.seen))
        assert cm.get([double.remote(i) for i in range(20)], timeout=4) == list(range(0, 40, 2)), (
            "less than a full store is waited for"
        )
        assert not cm.wait([ref], timeout=0)[0]
        del looked_at
        assert cm.get(ref, timeout=20) == 3 * MB and not two.faults


def test_what_is_spoilt_on_disk_is_lost_and_no_reason_to_end(tmp_path: Path) -> None:
    with machines(2, at_home={"object_store_memory": 64 * MB, "offload_dir": str(tmp_path)}) as two:
        moved, looked_at = on_disk()
        files = [file for file in tmp_path.rglob("*") if file.is_file() and file.stat().st_size > 20 * MB]
        for file in files:
            file.write_bytes(b"")
        del looked_at
        with pytest.raises(exceptions.ObjectLostError):
            cm.get(total.options(max_retries=0).remote(moved), timeout=20)
        assert files and cm.get(double.remote(2), timeout=20) == 4 and not two.faults


def test_what_was_lost_and_finds_no_room_to_be_made_again_is_lost() -> None:
    with machines(3, at_home={"max_tasks": 1000}) as three:
        three.routes["a"] = ["b"]
        there = [double.remote(np.ones(20_000)) for _ in range(5)]
        wait_until(lambda: len(three.machines["a"].lineage) == 5)
        three.routes["a"] = ["c"]
        with full_of_tasks():
            three.part("b")
            for ref in there:
                with pytest.raises(exceptions.ObjectLostError):
                    cm.get(ref, timeout=20)
        assert cm.get(double.remote(3), timeout=20) == 6


def left(them: Machines) -> dict[str, Any]:
    """What one still knows of another's objects."""
    them.sweep(100.0)
    return {
        f"{here} of {there}": (peer.objects._imports, peer.objects._told)
        for here, machine in them.machines.items()
        for there, peer in machine.peers.items()
        if peer.objects._imports or peer.objects._told
    }


def test_a_value_whose_references_find_no_room_at_home_is_an_error() -> None:
    with machines(2, at_home={"max_objects": 1000}) as two:
        two.routes["a"] = []
        ref = refs_to.remote(5)
        filling = all_there_are(lambda: cm.put(1))
        two.routes["a"] = ["b"]
        two.machines["a"].client.wake()
        with pytest.raises(exceptions.ObjectStoreFullError):
            cm.get(ref, timeout=20)
        del filling, ref
        assert cm.get(cm.get(refs_to.remote(3), timeout=20)) == [0, 1, 2]
        current().client.flush()
        wait_until(lambda: not left(two), 20, str(left(two)))
        assert not two.faults


def test_what_finds_no_room_there_is_returned_or_fails_and_nothing_is_left() -> None:
    with machines(2, elsewhere={"max_objects": 1000}) as two:
        adder, ones = Adder.remote(), [cm.put(1) for _ in range(900)]
        assert cm.get(adder.add.remote(ones[:10]), timeout=20) == 10
        with two.lock:
            remote_node = two.machines["b"].peers["a"].remote_node
            filling = [remote_node.create() for _ in range(800)]
        call = adder.add.remote(ones)
        with pytest.raises(exceptions.ObjectStoreFullError):
            cm.get(call, timeout=20)
        task = double.remote(ones)
        wait_until(lambda: any(isinstance(message, messages.Returned) for message in two.seen), 20)
        with two.lock:
            remote_node.drop(filling)
        assert cm.get(adder.add.remote(ones), timeout=20) == 900 and len(cm.get(task, timeout=20)) == 1800
        del adder, ones, task, call
        current().client.flush()
        wait_until(lambda: not left(two), 20, str(left(two)))
        assert not two.faults


# ---------------------------------------------------------------- with a real agent
DRIVER = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
import cellmesh as cm
from cellmesh.session.current import current
from cellmesh.objstore import _core

cm.init(address="tcp://" + os.environ["HEAD"], num_cpus=0, object_store_memory=64 << 20, max_objects=1000)

@cm.remote
def refs_to(n, path):
    while not os.path.exists(path):
        time.sleep(0.01)
    return [cm.put(i) for i in range(n)]

assert cm.get(cm.get(refs_to.remote(2, "/"))) == [0, 1]
path = os.environ["XDG_RUNTIME_DIR"] + "/go"
ref, filling = refs_to.remote(5, path), []
try:
    while True:
        filling.append(cm.put(1))
except cm.exceptions.StoreLimitError:
    open(path, "w").close()
try:
    cm.get(ref, timeout=30)
except cm.exceptions.ObjectStoreFullError:
    print("full", flush=True)
del filling[:], ref
assert cm.get(cm.get(refs_to.remote(3, "/"), timeout=30)) == [0, 1, 2]
client = current().client
try:
    while True:
        filling.append(_core.RemoteNode(client, 1))
except Exception as error:
    print(type(error).__name__, flush=True)
sys.stdin.readline()
there = refs_to.options(label_selector={"is": "new"}).remote(2, "/")  # on the machine that has joined by now
refs = [refs_to.remote(2, "/") for _ in range(20)]
assert [cm.get(ref) for ref in cm.get(refs, timeout=30)] == [[0, 1]] * 20
for remote_node in filling:
    remote_node.close(0)
cm.cancel(there)
print("all is well")
"""


def test_an_agent_lives_on_though_its_tables_are_full() -> None:
    with real_machines.machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head()
        path = Path(mine.folder, "token")
        path.write_text(here.run("token"))
        path.chmod(0o600)
        driver = mine.python("-c", DRIVER, HEAD=head["address"], CELLMESH_TOKEN_FILE=str(path))
        assert says(driver) == "full", driver.communicate()
        agent = agent_of(mine)
        assert says(driver) == "StoreLimitError"
        there.join(head, here.run("token"), "--labels", "is=new")
        assert driver.stdin is not None
        driver.stdin.write("go\n")
        driver.stdin.flush()
        wait_until(
            lambda: "is cut off: this session has no room for more than 256 processes and machines" in logs_of(mine), 20
        )
        assert agent_of(mine) == agent
        assert "all is well" in ends_well(driver)
