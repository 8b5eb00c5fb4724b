"""Machines for tests: each with folders of its own, on loopback or in a network namespace of its own, used through the
command line.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cellmesh.scheduler.system.processes import name_of
from support.commands import forked
from support.waiting import wait_until

MEMORY = ("--num-cpus", "1", "--object-store-memory", str(64 << 20))


RENAME = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"


@dataclass
class Machine:
    """Where commands run. `address`: its own; `name`: its hostname, which only root can give it."""

    address: str = "127.0.0.1"
    namespace: str = ""
    name: str = ""
    # Short, because a unix socket's path ends at 107 bytes.
    folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="m", dir=os.environ["XDG_RUNTIME_DIR"]))

    @property
    def environment(self) -> dict[str, str]:
        ours = {name: self.folder for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "TMPDIR")}
        return {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith("CELLMESH_") or name == "CELLMESH_TEST_RUN"
            },
            **ours,
        }

    def command(self, *arguments: str) -> list[str]:
        renamed = ("unshare", "--uts", sys.executable, "-c", RENAME, self.name) if self.name else ()
        return [*(("ip", "netns", "exec", self.namespace) if self.namespace else ()), *renamed, *arguments]

    def python(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """A program there, whose output the test reads."""
        return subprocess.Popen(
            self.command(sys.executable, *arguments),
            env={**self.environment, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, status: int = 0, stdin: str = "", **more: str) -> str:
        """`cellmesh ARGUMENTS`: what it prints, if it works; what it says on stderr, if it is not to."""
        environment = {**self.environment, **more}
        if self.name or self.namespace:
            done = subprocess.run(
                self.command(sys.executable, "-m", "cellmesh.cli", *arguments),
                env=environment,
                input=stdin,
                capture_output=True,
                text=True,
                timeout=60,
            )
        else:
            done = forked.run([forked.COMMAND, *arguments], environment, stdin)
        assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout if status == 0 else done.stderr

    def json(self, *arguments: str, **more: Any) -> Any:
        return json.loads(self.run(*arguments, "--json", **more))

    def head(self, *arguments: str) -> dict[str, Any]:
        """Begin a cluster here, at any port."""
        return dict(self.json("start", "--head", "--host", self.address, "--port", "0", *MEMORY, *arguments))

    def join(self, head: dict[str, Any], token: str, *arguments: str) -> dict[str, Any]:
        return dict(self.json("start", "--address", head["address"], *MEMORY, *arguments, stdin=token))

    def cluster(self) -> dict[str, Any]:
        """The one that this machine is part of, as `cellmesh status` tells."""
        (found,) = [row for row in self.json("status") if "nodes" in row]
        return dict(found)

    def alive(self) -> dict[str, dict[str, Any]]:
        """Its living nodes, by session."""
        return {row["session"]: row for row in self.cluster()["nodes"] if row["state"] != "dead"}

    def cluster_folder(self) -> Path:
        (found,) = Path(self.folder, "cellmesh", "clusters").iterdir()
        return found

    def end(self) -> None:
        """Stop everything there, and see that nothing is left."""
        for log in Path(self.folder).glob("cellmesh*/**/*.log"):  # shown if the test has failed
            print(f"--- {log}\n{log.read_text(errors='replace')[-4000:]}")
        self.run("stop")
        wait_until(
            lambda: not list(Path(self.folder).glob("cellmesh*/session-*")), what=f"no session is left in {self.folder}"
        )
        shutil.rmtree(self.folder)


def processes_of(machine: Machine) -> list[int]:
    """All that belong to sessions of that machine."""
    mark = f"XDG_RUNTIME_DIR={machine.folder}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and mark in (entry / "environ").read_bytes().split(b"\0")
                and b"cellmesh" in (entry / "cmdline").read_bytes()
            ):
                found.append(int(entry.name))
        except OSError:  # it has ended
            continue
    return found


def agent_of(machine: Machine) -> int:
    """The pid of the agent of its session, as soon as there is one."""
    return int(wait_until(lambda: [pid for pid in processes_of(machine) if name_of(pid) == "cellmesh-agent"])[0])


def logs_of(machine: Machine) -> str:
    """All that its sessions and heads have written down."""
    return "".join(log.read_text(errors="replace") for log in Path(machine.folder).glob("cellmesh*/**/*.log"))


def own_bytes(pid: int) -> int:
    """Memory that a process has for itself: without the segment and files."""
    found = re.search(r"RssAnon:\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) << 10


def kill_sessions(machine: Machine) -> None:
    """As if somebody had pulled the plug; a head of a cluster goes on."""
    for pid in processes_of(machine):
        with suppress(OSError):  # it has ended with the one before
            if b"cluster.head." not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    for folder in Path(machine.folder).glob("cellmesh*/session-*"):
        shutil.rmtree(folder)


@contextmanager
def machines(*which: Machine) -> Iterator[tuple[Machine, ...]]:
    """They are ended in the opposite order, so that nodes can still say goodbye to their head."""
    try:
        yield which
    finally:
        for machine in reversed(which):
            machine.end()


# ---------------------------------------------------------------- networks
def cannot_make_networks() -> str:
    """Why network namespaces cannot be made here; "" if they can."""
    if os.geteuid() != 0:
        return "needs root: makes network namespaces, which only root may"
    if shutil.which("ip") is None:
        return "needs the program `ip` (package iproute2)"
    tried = subprocess.run(["ip", "netns", "add", "cellmesh-try"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", "cellmesh-try"], capture_output=True)
    return f"this kernel makes no network namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Network:
    """Namespaces that are connected by a bridge: 10.117.x.1, .2, ... A cable that is pulled out of the bridge loses
    everything silently.
    """

    def __init__(self, n: int) -> None:
        self._name = f"cm{os.getpid()}"
        self._n = n
        self.machines: list[Machine] = []

    def _ip(self, command: str) -> None:
        subprocess.run(["ip", *command.split()], check=True, capture_output=True, text=True)

    def __enter__(self) -> Network:
        _sweep()
        # The bridge lies in a namespace, too: whatever happens here, the network of this machine is not touched.
        try:
            self._ip(f"netns add {self._name}b")
            self._ip(f"-n {self._name}b link add br0 type bridge")
            self._ip(f"-n {self._name}b link set br0 up")
            for i in range(1, self._n + 1):
                namespace = f"{self._name}n{i}"
                self._ip(f"netns add {namespace}")
                self._ip(f"link add eth0 netns {namespace} type veth peer name port{i} netns {self._name}b")
                self._ip(f"-n {self._name}b link set port{i} master br0 up")
                self._ip(f"-n {namespace} address add 10.117.0.{i}/24 dev eth0")
                for device in ("lo", "eth0"):
                    self._ip(f"-n {namespace} link set {device} up")
                self.machines.append(Machine(f"10.117.0.{i}", namespace))
        except BaseException:
            self._remove()
            raise
        return self

    def sent_bytes(self, machine: Machine) -> int:
        """What has left that machine."""
        devices = subprocess.run(
            machine.command("cat", "/proc/net/dev"), check=True, capture_output=True, text=True
        ).stdout
        return int(next(line for line in devices.splitlines() if "eth0" in line).split()[9])

    def pull(self, i: int) -> None:
        """The cable of machine `i`, from 1."""
        self._ip(f"-n {self._name}b link set port{i} nomaster")

    def plug(self, i: int) -> None:
        self._ip(f"-n {self._name}b link set port{i} master br0")

    def mislead(self, i: int, j: int) -> None:
        """What machine `i` sends to `j` goes to nobody, and neither is told; what `j` sends arrives."""
        self._ip(f"-n {self._name}n{i} neighbour replace 10.117.0.{j} lladdr 02:00:00:00:00:01 dev eth0 nud permanent")

    def lead(self, i: int, j: int) -> None:
        """It goes to `j` again."""
        self._ip(f"-n {self._name}n{i} neighbour delete 10.117.0.{j} dev eth0")

    def __exit__(self, *unused: object) -> None:
        try:
            for machine in reversed(self.machines):
                machine.end()
        finally:
            self._remove()

    def _remove(self) -> None:
        for name in (f"{self._name}b", *(f"{self._name}n{i}" for i in range(1, self._n + 1))):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _sweep() -> None:
    """Remove what a run of tests that was killed could not."""
    listed = subprocess.run(["ip", "netns", "list"], check=True, capture_output=True, text=True).stdout
    for name, pid in re.findall(r"^(cm(\d+)(?:b|n\d+))\b", listed, re.M):
        if not os.path.exists(f"/proc/{pid}"):
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
