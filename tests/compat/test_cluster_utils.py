"""Clusters of several nodes on this machine for Ray's programs, and Ray's command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.waiting import wait_until

import cellmesh.compat.ray as ray
from cellmesh.compat.ray._commands import translated
from cellmesh.compat.ray.cluster_utils import Cluster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a cluster makes its folders; short, because a unix socket's path ends at 107 bytes."""
    import tempfile

    folder = tempfile.mkdtemp(prefix="c", dir=os.environ["XDG_RUNTIME_DIR"])
    monkeypatch.setattr(tempfile, "tempdir", folder)
    return Path(folder)


def test_a_cluster_of_two_nodes(temporary: Path) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    cluster = Cluster(
        initialize_head=True, connect=True, head_node_args={"num_cpus": 1, "dashboard_port": 8265, "_system_config": {}}
    )
    try:
        node = cluster.add_node(
            num_cpus=2, resources={"special": 1}, labels={"zone": "eu"}, object_store_memory=64 << 20
        )
        cluster.wait_for_nodes()
        assert cluster.list_all_nodes() == [cluster.head_node, node] and cluster.remaining_processes_alive()
        assert ray.cluster_resources()["CPU"] == 3

        @ray.remote(resources={"special": 1})
        def where() -> str:
            return ray.get_runtime_context().get_node_id()

        assert ray.get(where.remote()) == node.node_id

        cluster.remove_node(node, allow_graceful=False)
        cluster.wait_for_nodes()
        assert {row["NodeID"]: row["Alive"] for row in ray.nodes()} == {
            cluster.head_node.node_id: True,
            node.node_id: False,
        }
        with pytest.raises(ValueError, match="no longer"):
            cluster.remove_node(node)
        with pytest.raises(ValueError, match="connected to this driver"):
            cluster.remove_node(cluster.head_node)
        assert not ray.is_initialized()
    finally:
        cluster.shutdown()
        cluster.shutdown()
        signal.signal(signal.SIGTERM, handler)
    assert cluster.address is None and list(temporary.iterdir()) == []


def test_a_node_that_has_gone_is_waited_for_in_vain(temporary: Path) -> None:
    cluster = Cluster(initialize_head=True)
    try:
        node = cluster.add_node()
        cluster._run(node.folder, "stop")
        with pytest.raises(TimeoutError, match="Timed out while waiting for nodes to join"):
            cluster.wait_for_nodes(timeout=0.01)
        assert not cluster.remaining_processes_alive()
    finally:
        cluster.shutdown()
    assert list(temporary.iterdir()) == []


def test_wrong_use_of_a_cluster(temporary: Path) -> None:
    with pytest.raises(RuntimeError, match="Cannot connect to uninitialized cluster"):
        Cluster(connect=True)
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="has no head"):
        cluster.connect()
    with pytest.raises(TypeError, match="no argument 'num_cpu'; it takes num_cpus"):
        cluster.add_node(num_cpu=1)
    with pytest.raises(RuntimeError, match="--num-cpus"):
        cluster.add_node(num_cpus="many")
    cluster.shutdown()
    assert list(temporary.iterdir()) == []


# ---------------------------------------------------------------- the command line
def command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cellmesh.compat.ray", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(folder), "XDG_STATE_HOME": str(folder)},
    )


def said(folder: Path, *arguments: str, status: int = 0) -> str:
    process = command(folder, *arguments)
    out, err = process.communicate(timeout=60)
    assert process.returncode == status, (out, err)
    return out + err


HEAD = (
    "start",
    "--head",
    "--port=0",
    "--num-cpus=1",
    "--object-store-memory",
    str(64 << 20),
    "--include-dashboard=false",
    "--disable-usage-stats",
)


def test_start_block_stays_until_it_is_told_to_end(temporary: Path) -> None:
    head = command(temporary, *HEAD, "--block", "--resources", '{"special": 2}')
    assert head.stdout is not None
    assert "serves at" in head.stdout.readline()
    wait_until(lambda: "special: 2" in said(temporary, "status"))
    head.send_signal(signal.SIGTERM)
    head.communicate(timeout=60)
    assert head.returncode == 0
    assert said(temporary, "status").splitlines() == ["No cellmesh session of yours runs on this machine."], (
        "nor a cluster"
    )


def test_start_block_ends_with_its_node(temporary: Path) -> None:
    head = command(temporary, *HEAD, "--block")
    assert head.stdout is not None
    assert "serves at" in head.stdout.readline()
    assert "has ended" in said(temporary, "stop", "--force")
    _, err = head.communicate(timeout=60)
    assert head.returncode == 1 and "has ended" in err
    assert "No cellmesh session" in said(temporary, "status")


def test_rays_options_in_cellmeshs_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert translated(
        [
            "start",
            "--address=host:6379",
            "--labels",
            '{"zone": "eu"}',
            "--num-gpus",
            "1",
            "--node-ip-address",
            "10.0.0.1",
            "-v",
        ]
    ) == ["start", "--address", "host:6379", "--host", "10.0.0.1", "--num-gpus", "1", "--labels", "zone=eu"]
    assert translated(["stop", "-f", "-g", "30"]) == ["stop", "--force"] and translated(["stop"]) == ["stop"]
    assert translated(["status", "--json"]) == ["status", "--json"]
    for wrong in (["start", "--heads", "yes"], ["start", "--head", "--labels", "{zone"]):
        with pytest.raises(SystemExit):
            translated(wrong)
    assert "is not a dict as JSON" in capsys.readouterr().err
