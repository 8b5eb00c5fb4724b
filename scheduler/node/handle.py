"""A driver's handle on its node: starts the processes of a session, or joins them, and ends them.

Starting is quick because it waits for no other process: the segment and the listening socket exist before the local
scheduler does, so the driver attaches, connects and submits while the other processes are still importing.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ...objstore._core import ROLE_DRIVER, Client
from ..ipc import transport
from ..ipc.link import Link
from ..ipc.messages import (
    ClusterConfig,
    EngineConfig,
    EngineState,
    FromScheduler,
    Hello,
    Refused,
    SessionConfig,
    Shutdown,
    Welcome,
)
from ..ipc.transport import ConnectionLost
from ..system import processes
from . import session_dir
from .launch import DEFAULT_MAX_OBJECTS, DEFAULT_MAX_TASKS, Launch, launch
from .offload_dir import default_limit, default_parent

# What a plain task, actor and call of one ask for and keep (`options.resource_demand`): they run however many others
# there are.
LASTING_SHAPES: tuple[tuple[dict[str, float], dict[str, float] | None], ...] = (
    ({"CPU": 1.0}, None),
    ({"CPU": 1.0}, {}),
    ({}, None),
)
CONNECT_TIMEOUT_S = 5.0
END_TIMEOUT_S = 6.0  # more than a local scheduler takes: the time that workers have to leave, and to be killed


class WorkerModules(NamedTuple):
    """What workers of a session import, as the layer above names it; the scheduler knows no module of that layer.

    Attributes
    ----------
    hooks, setup : str
        As `hooks` and `worker_setup` of `messages.SessionConfig`.
    preload : sequence of str
        Imported once, in the zygote, instead of in every worker by its first task.
    preload_idle : sequence of str
        Likewise, but they can wait until the first task runs.
    """

    hooks: str
    setup: str = ""
    preload: Sequence[str] = ()
    preload_idle: Sequence[str] = ()


class JoinError(ConnectionError):
    """No session could be joined; the text says why."""


class Node:
    """This machine's node, as a driver sees it.

    Attributes
    ----------
    fd : int
        The segment. Stays open until `close`.
    session_id : str
        Hex.
    session_dir : str
        The path of its folder, of mode 0700; goes with the session.
    address : str
        Path of the node's socket: what `connect` takes.
    scheduler_pid : int
        Of the local scheduler.
    namespace : str
    resources : dict of str to float
        What the node has in total.
    link : Link
        To the local scheduler.
    engine : EngineState or None
        What was known of the session's engine when this process joined it.
    """

    def __init__(
        self,
        *,
        fd: int,
        directory: str,
        link: Link,
        scheduler_pid: int,
        namespace: str,
        resources: dict[str, float],
        scheduler_fd: int = -1,
        process: subprocess.Popen[bytes] | None = None,
        engine: EngineState | None = None,
    ) -> None:
        self.fd = fd
        self.session_dir = directory
        self.session_id = session_dir.id_of(directory)
        self.address = os.path.join(directory, session_dir.SOCKET_NAME)
        self.scheduler_pid = scheduler_pid
        self.namespace = namespace
        self.resources = resources
        self.link = link
        self.engine = engine
        self._scheduler_fd = scheduler_fd  # a pidfd of the local scheduler; -1: the session is another driver's
        self._process = process  # if it is a child of this process
        self._pid = os.getpid()
        self._closed = False
        if scheduler_fd >= 0:
            link.on_lost(self._scheduler_lost)

    # ---- beginning
    @classmethod
    def start(
        cls,
        *,
        modules: WorkerModules,
        resources: dict[str, float],
        object_store_memory: int | None = None,
        max_objects: int = DEFAULT_MAX_OBJECTS,
        max_tasks: int = DEFAULT_MAX_TASKS,
        log_to_driver: bool = True,
        namespace: str = "",
        log_dir: str = "",
        offload_dir: str | None = None,
        offload_limit: int | None = None,
        left_note: bytes = b"",
        cluster: ClusterConfig | None = None,
        engine: EngineConfig | None = None,
        stays: bool = False,
        launched: Launch | None = None,
    ) -> Node:
        """Start a session whose owner is this process. Does not wait for the processes it starts.

        Parameters
        ----------
        modules : WorkerModules
            What workers import.
        resources : dict of str to float
            What the node offers: "CPU", "GPU", "memory" (bytes), custom kinds.
        object_store_memory : int, bytes, optional
            Size of the segment's arena; memory is used as it fills. Default 2 GiB.
        max_objects, max_tasks : int
            How many objects there can be at a time, and how many unfinished tasks.
        log_to_driver : bool
            Whether output of workers is relayed to drivers.
        namespace : str
            Where named actors of this session are looked up by default.
        log_dir : str
            A folder where each worker writes all that its tasks print; "" for none.
        offload_dir : str, optional
            The folder in which objects get one of their own when memory is full; default: where there is a real disk,
            see `offload_dir.default_parent`; "": none is offloaded.
        offload_limit : int, bytes, optional
            How much may lie there; default: half of what is free on that disk now.
        left_note : bytes
            What is to be found where the session is, should it go on when this process has ended, see
            `session_dir.left`.
        cluster : ClusterConfig, optional
            The cluster that the session takes part in.
        engine : EngineConfig, optional
            What runs tasks that this machine has no room for; without a cluster.
        stays : bool
            Whether the session goes on when this process leaves it, until a command or its cluster ends it.
        launched : Launch, optional
            The beginning, when it has been made already; then the sizes above are without effect.

        Raises
        ------
        OSError
            If the operating system refuses a process, memory or a socket; nothing is left behind then.
        """
        launched = launched or launch(object_store_memory, max_objects, max_tasks)
        scheduler_fd = -1
        try:
            scheduler_fd = os.pidfd_open(launched.process.pid)
            objects, limit = _offload_to(launched.directory, offload_dir, offload_limit)
            config = SessionConfig(
                session=launched.session,
                session_dir=launched.directory,
                driver_pid=os.getpid(),
                namespace=namespace,
                total=resources,
                log_to_driver=log_to_driver,
                sys_path=_absolute_sys_path(),
                python_path=os.environ.get("PYTHONPATH"),
                hooks=modules.hooks,
                worker_setup=modules.setup,
                preload=list(modules.preload),
                preload_idle=list(modules.preload_idle),
                log_dir=log_dir,
                offload_dir=objects,
                left_note=left_note,
                cluster=cluster,
                engine=engine,
                stays=stays,
            )
            _offer(launched.segment_fd, resources, objects, limit)
            if cluster is not None:
                session_dir.note_cluster(launched.directory, os.path.basename(cluster.folder), stays)
            launched.tell(config.to_bytes())
            link = _greet_own(launched.directory, launched.process, scheduler_fd)
            launched.is_taken = True
        except BaseException:
            launched.abandon()
            if scheduler_fd >= 0:
                os.close(scheduler_fd)
            raise
        return cls(
            fd=launched.segment_fd,
            directory=launched.directory,
            link=link,
            scheduler_pid=launched.process.pid,
            namespace=namespace,
            resources=resources,
            scheduler_fd=scheduler_fd,
            process=launched.process,
        )

    @classmethod
    def adopt(cls, address: str) -> Node | None:
        """Take over the session at `address`, whose driver has left it; None: there is none any more, or it has a
        driver.
        """
        try:
            node = cls.connect(address, adopt=True)
        except JoinError:
            return None
        if node._scheduler_fd < 0:
            node.close()
            return None
        return node

    @classmethod
    def connect(cls, address: str, adopt: bool = False) -> Node:
        """Join a session of this user on this machine.

        Parameters
        ----------
        address : str
            Of the session's socket (`Node.address`), or "auto": the youngest session there is.
        adopt : bool
            Make it this process's own, if it has no driver.

        Raises
        ------
        JoinError
            If no process serves there, or it is a session of another version.
        """
        if address == "auto":
            found = session_dir.alive()
            if not found:
                raise JoinError(
                    f"no cellmesh session of yours runs on this machine (looked in {session_dir.runtime_root()})"
                )
            address = os.path.join(found[0], session_dir.SOCKET_NAME)
        try:
            channel = transport.connect(address, FromScheduler, CONNECT_TIMEOUT_S)
        except TimeoutError as error:
            raise JoinError(
                f"the local scheduler at {address} has let nobody in for {CONNECT_TIMEOUT_S:g} s: it is stopped, or "
                "has too much to do"
            ) from error
        except OSError as error:
            raise JoinError(f"no cellmesh session is served at {address}: {error.strerror or error}") from error
        try:
            channel.send(Hello("driver", os.getpid(), want_fd=True, adopt=adopt))
            answer, fds = channel.receive()
            if isinstance(answer, Refused):
                raise JoinError(answer.reason)
            if not isinstance(answer, Welcome) or len(fds) != 1:
                raise JoinError(f"{address} does not answer as a local scheduler does")
            scheduler_fd = os.pidfd_open(answer.scheduler_pid) if answer.adopted else -1
        except (ConnectionLost, transport.ProtocolError, ProcessLookupError) as error:
            channel.close()
            if isinstance(error.__cause__, TimeoutError):
                raise JoinError(
                    f"the local scheduler at {address} has not answered within {CONNECT_TIMEOUT_S:g} s: it is "
                    "stopped, or has too much to do"
                ) from error
            raise JoinError(f"the session at {address} does not let us in: {error}") from error
        except BaseException:
            channel.close()
            raise
        channel.set_timeout(None)
        return cls(
            fd=fds[0],
            directory=os.path.dirname(address),
            link=Link(channel),
            scheduler_pid=answer.scheduler_pid,
            namespace=answer.namespace,
            resources=dict(answer.total),
            scheduler_fd=scheduler_fd,
            engine=answer.engine,
        )

    # ---- end
    def close(self, timeout_s: float = END_TIMEOUT_S, leave: bool = False) -> None:
        """End the session if it is this process's, otherwise leave it. Harmless when repeated.

        When it returns, every process of the session is gone and its folder removed. A local scheduler that does not
        end by itself within `timeout_s` is killed, and what it leaves is cleaned up here. `leave`: leave it in any
        case; if a detached actor lives, it goes on when this process ends.
        """
        if self._closed:
            return
        self._closed = True
        if self._pid != os.getpid():  # a forked child has nothing to end; its copies of descriptors end with it
            return
        if self._scheduler_fd >= 0 and not leave:
            self._end_session(timeout_s)
        self.link.close()
        os.close(self.fd)
        if self._scheduler_fd >= 0:
            os.close(self._scheduler_fd)

    def _end_session(self, timeout_s: float) -> None:
        self.link.expect_end()
        try:
            self.link.send(Shutdown())
        except ConnectionLost:  # it is ending, or has ended
            pass
        if not _has_ended(self._scheduler_fd, timeout_s):
            signal.pidfd_send_signal(self._scheduler_fd, signal.SIGKILL)
            _has_ended(self._scheduler_fd, timeout_s)
        if self._process is not None:
            self._process.wait()
        if os.path.exists(self.session_dir):  # it was killed before it could clean up
            self._clean_up()

    def _scheduler_lost(self, reason: str) -> None:
        """In the link's thread: the local scheduler has died; workers die with it, what they started may not."""
        if not self._closed:
            self._clean_up()

    def _clean_up(self) -> None:
        processes.kill_session(self.session_id, timeout_s=1.0)
        session_dir.remove(self.session_dir)


def stop_session(directory: str, by: str, timeout_s: float) -> list[int]:
    """End a session of another driver, and tell its drivers `by` whom; by force if its local scheduler does not obey.

    Returns
    -------
    list of int
        Processes that have not ended within `timeout_s`.
    """
    try:
        node = Node.connect(os.path.join(directory, session_dir.SOCKET_NAME))
    except JoinError:  # it hangs, or is another version's
        node = None
    if node is not None:
        try:
            node.link.send(Shutdown(by))
            node.link.wait_lost(timeout_s)
        except ConnectionLost:  # it has ended meanwhile
            pass
        finally:
            node.close()
    return kill_session(directory, timeout_s)


def kill_session(directory: str, timeout_s: float) -> list[int]:
    """As `stop_session`, by force from the first, and without a message."""
    left = processes.kill_session(session_dir.id_of(directory), timeout_s)
    session_dir.remove(directory)
    return left


def _offload_to(directory: str, parent: str | None, limit: int | None) -> tuple[str, int]:
    """The folder for objects that memory has no room for, and how many bytes it may hold; "" if there is none."""
    wanted = default_parent() if parent is None else parent
    if not wanted or limit == 0:
        return "", 0
    try:
        path = session_dir.create_offload_dir(directory, wanted)
        return path, default_limit(path) if limit is None else limit
    except OSError:
        if parent is not None:
            raise
        return "", 0  # not asked for: a full store is full


def _offer(fd: int, resources: dict[str, float], objects: str, limit: int) -> None:
    """Write into the segment what the node has, before any process can ask."""
    client = Client(fd, ROLE_DRIVER, None)
    try:
        client.set_total(resources)
        client.set_offload(objects, limit)
        for needs, keeps in LASTING_SHAPES:
            client.resource_class(needs, keeps)
    finally:
        client.client_died(client.index, 0)  # gives its slot back
        client.close()


def _greet_own(directory: str, process: subprocess.Popen[bytes], scheduler_fd: int) -> Link:
    channel = transport.connect(os.path.join(directory, session_dir.SOCKET_NAME), FromScheduler)
    channel.send(Hello("driver", os.getpid()))

    def explain(reason: str) -> str:
        if not _has_ended(scheduler_fd, 1.0):
            return f"process {process.pid}: {reason}"
        code = process.wait()
        how = f"signal {-code}" if code < 0 else f"exit status {code}"
        said = session_dir.log_tail(directory)
        return f"process {process.pid} ended with {how}" + (f"; its last words:\n{said}" if said else "")

    return Link(channel, explain)


def _absolute_sys_path() -> list[str]:
    return [os.path.abspath(path) for path in sys.path]


def _has_ended(pidfd: int, timeout_s: float) -> bool:
    """Wait for a process to end, without polling and without reaping it."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))
