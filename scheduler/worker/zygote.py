"""The process that forks workers: imports what every task needs once, then forks in milliseconds.

Nothing else in a session forks without exec: a process with threads must not (the child would inherit locked locks),
and this one never has any. It is not attached to the segment either, so a worker starts without foreign state.

The zygote is also the first process to learn that a worker has ended. It kills what the worker has started.
"""

from __future__ import annotations

import gc
import importlib
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import cast

from ...objstore._core import line_buffer_stdout, set_process_name
from ..ipc import fitting, held_text, transport
from ..ipc.messages import (
    ForkFailed,
    FromScheduler,
    Hello,
    Package,
    PackageState,
    PreloadModules,
    SessionConfig,
    ToZygote,
    TryPackage,
    WorkerExited,
    WorkerForked,
)
from ..ipc.transport import Channel, ConnectionLost
from ..system import processes
from . import main as worker
from . import trial

# Every task needs it: the first worker waits for it.
PRELOADED = ("cloudpickle",)
# Nearly every task. It takes as long as all the rest together, so the first worker is forked before and imports it
# itself if its tasks do; the others wait for it here and share its pages.
PRELOADED_AFTER_FIRST = ("numpy",)
# OpenBLAS starts its threads when it is loaded, unless told otherwise. They must not exist before a fork, and a
# worker is one of several on its machine.
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
# OpenMP, which torch brings, starts none before it computes, but reads the number for good when it is loaded.
THREADS: Sequence[str] = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")


def main(channel: Channel, segment_fd: int, config: SessionConfig, parent: int) -> None:
    """Serve the local scheduler, process `parent`, until it ends. Workers never return from here."""
    processes.die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_process_name("cellmesh-zygote")
    restore_python_path(config.python_path)
    line_buffer_stdout()
    preload([*PRELOADED, *config.preload])
    gc.freeze()  # as in _settle, without the collection, for which the first worker would wait
    Zygote(channel, segment_fd, config).serve()


def restore_python_path(python_path: str | None) -> None:
    """The driver may have extended PYTHONPATH for our start; tasks and their child processes see their own again."""
    if python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = python_path


def preload(names: Sequence[str]) -> None:
    """Import what workers will need, without starting a thread. A module that is absent or broken fails in the task."""
    own_pid = os.getpid()
    with without_threads():
        for name in names:
            try:
                importlib.import_module(name)
            except Exception:  # whatever it does: the import in the task will raise it again, where it can be seen
                traceback.print_exc()
            finally:
                if os.getpid() != own_pid:  # a child that the module has forked: there is one zygote only
                    os._exit(0)


@contextmanager
def without_threads() -> Generator[None, None, None]:
    """Libraries that are loaded meanwhile start no threads of their own, as far as variables tell them."""
    ours: dict[str, str] = {} if any(name in os.environ for name in BLAS_VARIABLES) else dict.fromkeys(THREADS, "1")
    if "JE_ARROW_MALLOC_CONF" not in os.environ:
        ours["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _settle() -> None:
    """Take what is alive out of garbage collection: collections in workers would touch, and so copy, all its pages."""
    gc.collect()
    gc.freeze()


class Zygote:
    """The loop: orders from the local scheduler, exits of workers."""

    def __init__(self, channel: Channel, segment_fd: int, config: SessionConfig) -> None:
        self._channel, self._segment_fd, self._config = channel, segment_fd, config
        self._pid = os.getpid()  # a child that asks for its parent may be told another one already
        self._imports_after_first = list(PRELOADED_AFTER_FIRST)
        self._idle_imports = list(config.preload_idle)
        self._to_try: TryPackage | None = None
        self._trial: trial.Trial | None = None
        self._to_import: TryPackage | None = None  # its trial has shown no harm
        # SIGCHLD writes a byte here; the handler itself has nothing to do.
        self._signal_reader, self._signal_writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._signal_writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)

    def serve(self) -> None:
        """Serve until the local scheduler has gone."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            selector.register(self._signal_reader, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select(0 if self._has_idle_work() else None)}
                try:
                    if self._signal_reader in ready:
                        self._reap()
                    if self._channel in ready:
                        for message, _ in self._channel.receive_ready():
                            self._obey(cast(ToZygote, message))  # the link accepts nothing else
                except ConnectionLost:
                    return
                if not ready and self._has_idle_work():
                    self._work_idly()

    def _has_idle_work(self) -> bool:
        to_try = self._to_try is not None and self._trial is None and not self._imports_after_first
        return bool(self._idle_imports or self._to_import or to_try)

    def _work_idly(self) -> None:
        """One import, or the start of a trial; then orders come first again."""
        if self._idle_imports:
            preload([self._idle_imports.pop(0)])
            _settle()
        elif self._to_import is not None:
            self._import(self._to_import)
            self._to_import = None
        elif self._to_try is not None:
            self._begin_trial(self._to_try)

    # ---- packages that the program has imported
    def _begin_trial(self, order: TryPackage) -> None:
        if sys.modules.keys() >= {order.package.name, *order.package.modules}:
            self._to_try = None
            self._channel.send(PackageState(order.package.name, "warm"))
            return
        try:
            with without_threads():
                own = (self._channel.fileno(), self._signal_reader, self._signal_writer)
                self._trial = trial.begin(order.package, order.sys_path, own)
        except OSError as error:
            self._end_of(order.package, f"the operating system refuses a process for its trial ({error})")

    def _trial_ended(self, ended: trial.Trial, code: int) -> None:
        self._trial = None
        assert self._to_try is not None
        if reason := trial.verdict(ended, code):
            self._end_of(ended.package, reason)
        else:
            self._to_try, self._to_import = None, self._to_try

    def _import(self, order: TryPackage) -> None:
        self._channel.send(PackageState(order.package.name, "importing"))
        reason = ""
        try:
            with without_threads():
                trial.import_package(order.package, order.sys_path)
        except (Exception, SystemExit) as error:  # though its trial raised nothing
            traceback.print_exc()
            reason = f"its import has failed: {type(error).__name__}: {error}"
        _settle()
        self._end_of(order.package, reason)

    def _end_of(self, package: Package, reason: str) -> None:
        self._to_try = None
        self._channel.send(PackageState(package.name, "cold" if reason else "warm", reason))

    # ---- workers
    def _obey(self, order: ToZygote) -> None:
        if isinstance(order, PreloadModules):
            preload(order.names)
            _settle()
            return
        if isinstance(order, TryPackage):
            self._to_try = order
            return
        for _ in range(order.n):
            self._fork()
            self._reap()  # many forks take their time; an exit should not wait for the last
            if self._imports_after_first:
                preload(self._imports_after_first)
                self._imports_after_first = []
                transport.decoder(FromScheduler)  # made once, here, for all the others, as is what this one looks up:
                fitting.encode(Hello("worker", self._pid))
                _settle()

    def _fork(self) -> None:
        pipes: list[int] = []
        held = start = -1
        try:
            for _ in range(3):
                pipes += os.pipe2(os.O_CLOEXEC)
            held = held_text.create()
            start = os.eventfd(0, os.EFD_CLOEXEC)
            pid = os.fork()
        except OSError as error:
            self._channel.send(ForkFailed(str(error)))
            _close_all([fd for fd in (*pipes, held, start) if fd >= 0])
            return
        if pid == 0:
            self._become_worker(pipes, held, start)
        self._channel.send(WorkerForked(pid), (*pipes[0::2], held, start))
        _close_all([*pipes, held, start])

    def _become_worker(self, pipes: list[int], held: int, start: int) -> None:
        """Never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._channel.close()
            _close_all([self._signal_reader, self._signal_writer, *pipes[0::2]])
            stdout, stderr, stacks = pipes[1::2]
            code = worker.main(self._pid, self._segment_fd, self._config, stdout, stderr, stacks, held, start)
        except BaseException:  # nothing else can tell it: the local scheduler reads this stderr
            traceback.print_exc()
        finally:
            # Not sys.exit: what the zygote registered with atexit, and its buffers, are not the worker's.
            os._exit(code)

    def _reap(self) -> None:
        try:
            while os.read(self._signal_reader, 4096):
                continue
        except BlockingIOError:
            pass
        for pid, code in processes.reap(leads_group=lambda pid: True):
            if self._trial is not None and pid == self._trial.pid:
                self._trial_ended(self._trial, code)
                continue
            self._channel.send(WorkerExited(pid, code))


def _close_all(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


def start(argv: list[str]) -> None:
    """Entry of a zygote that replaces one. The local scheduler has threads by then, so it cannot fork it.

    `argv`: the descriptors of link, segment and configuration, and the local scheduler's pid.
    """
    link, segment_fd, config_fd, parent = (int(argument) for argument in argv)
    config = SessionConfig.from_bytes(processes.read_all(config_fd))
    main(transport.inherit(link, ToZygote), segment_fd, config, parent)


if __name__ == "__main__":
    start(sys.argv[1:])
