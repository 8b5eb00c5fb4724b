"""A worker from its fork to its end: attach to the segment, then execute what comes.

`client.run()` is the whole loop for plain tasks; it lives in C and returns when the worker is to leave, or with the
constructor of an actor, which this process then serves until the actor ends.
"""

from __future__ import annotations

import atexit
import faulthandler
import importlib
import os
import signal
import sys
import threading
import types
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...objstore._core import ROLE_WORKER, Client, deferring, keep_heap, repeat_interrupts, set_process_name
from ..ipc import transport
from ..ipc.messages import FromScheduler, Hello, SessionConfig
from ..system import processes
from . import actor, leaving, no_input, process_state
from .output import Output

# The kernel's choice when memory runs out: workers before the notebook, whose state cannot be computed again.
OOM_SCORE = 300
# Asks a worker where it is: dumps every thread's stack without needing the interpreter, so also in stuck C code.
STACK_SIGNAL = signal.SIGUSR2
# By which a user has said how the heap grows and shrinks.
MALLOC_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
# How long after an interruption that came during an import another one is tried.
RETRY_S = 0.02


def main(
    zygote: int, segment_fd: int, config: SessionConfig, stdout: int, stderr: int, stacks: int, held: int, start: int
) -> int:
    """Run a worker in this freshly forked process; the exit status.

    Parameters
    ----------
    zygote : int
        The pid of the process that has forked this one, with which it ends.
    segment_fd : int
        The node's segment.
    stdout, stderr, stacks : int
        Writing ends of pipes to the local scheduler.
    held : int
        Memory for text that waits to be sent (`ipc.held_text`).
    start : int
        An eventfd. The local scheduler writes to it once it knows of this worker; until then the worker does nothing
        that others can see.
    """
    os.setsid()  # a group of its own: whatever tasks start is killed with the worker
    processes.die_with_parent(zygote)
    set_process_name("cellmesh-worker")
    leaving.begin_anew()
    _take_pipes(stdout, stderr, stacks)
    if not any(name in os.environ for name in MALLOC_VARIABLES):
        keep_heap()
    _prepare_interpreter(config)
    hooks: Any = resolve(config.hooks)() if config.hooks else None
    _wait_for_start(start)
    client = Client(segment_fd, ROLE_WORKER, hooks)
    signal.signal(signal.SIGINT, interrupter(client))
    repeat_interrupts()
    channel = transport.connect(config.address, FromScheduler)
    output = Output(client, channel, held, config.log_dir)
    if config.worker_setup:
        resolve(config.worker_setup)(client, output, config)
    output.install()
    process_state.install(client)
    channel.send(Hello("worker", os.getpid(), index=client.index))  # ready; what ends before this has failed to start
    while (task := client.run()) >= 0:
        if (made := actor.construct(client, hooks, task)) is not None:
            set_process_name(f"cm:{type(made.instance).__name__}")
            if label := actor.label(made.instance):
                output.name = label
                hooks.name_actor(label)
            if clean_up := getattr(made.instance, "__ray_shutdown__", None):
                atexit.register(clean_up)  # before those that the constructor has registered
            actor.serve(client, hooks, made.loop)
            break
    leaving.run_exit_functions()  # of a worker that is told to leave; the zygote's os._exit would run none
    output.flush()
    return 0


def resolve(name: str) -> Any:
    """The object called "module:attribute"."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _take_pipes(stdout: int, stderr: int, stacks: int) -> None:
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    # A crash in C code: its Python stack goes into the report of the death. That of C is Python 3.14's and later ones'.
    options: dict[str, bool] = {"c_stack": False} if sys.version_info >= (3, 14) else {}
    faulthandler.enable(stacks, **options)
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)


def _wait_for_start(start: int) -> None:
    os.read(start, 8)
    os.close(start)


def _prepare_interpreter(config: SessionConfig) -> None:
    """Give tasks what they may expect: the driver's import path, an empty __main__, random numbers of their own."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(OOM_SCORE))
    except OSError:  # some sandboxes do not allow it
        pass
    no_input.install()
    own = [path for path in sys.path if path not in config.sys_path]
    sys.path[:] = [*config.sys_path, *own]
    sys.argv[:] = [""]
    sys.modules["__main__"] = types.ModuleType("__main__")
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:  # Python's own generator seeds itself after a fork, this one does not
        numpy_random.seed()


def interrupter(client: Any) -> Callable[[int, FrameType | None], None]:
    """The handler of SIGINT, by which the core interrupts a task that is to be cancelled. Another task may run by
    then."""

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if not client.cancelled():
            return
        if _is_importing(frame):  # half a module would stay behind for this worker's other tasks: soon again
            again = threading.Timer(RETRY_S, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            raise KeyboardInterrupt

    return deferring(interrupt)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
