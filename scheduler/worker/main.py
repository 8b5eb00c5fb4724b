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

from ...objstore import _core
from .. import processes, transport
from ..messages import FromScheduler, Hello, SessionConfig
from . import actor
from .output import Output

# The kernel's choice when memory runs out: workers before the notebook, whose state nobody can compute again.
OOM_SCORE = 300
# Asks a worker where it is: dumps every thread's stack without needing the interpreter, so also in stuck C code.
STACK_SIGNAL = signal.SIGUSR2
# How long after an interruption that came during an import another one is tried.
RETRY_S = 0.02


def main(segment_fd: int, config: SessionConfig, stdout: int, stderr: int, stacks: int) -> int:
    """Run a worker in this freshly forked process; the exit status.

    Parameters
    ----------
    segment_fd : int
        The node's segment.
    stdout, stderr, stacks : int
        Writing ends of pipes to the local scheduler.
    """
    zygote = os.getppid()
    os.setsid()  # a group of its own: whatever tasks start is killed with the worker
    processes.die_with_parent(zygote)
    _core.set_process_name("cellmesh-worker")
    atexit._clear()  # what is registered belongs to the zygote
    _take_pipes(stdout, stderr, stacks)
    _prepare_interpreter(config)
    hooks = resolve(config.hooks)() if config.hooks else None
    client = _core.Client(segment_fd, _core.ROLE_WORKER, hooks)
    signal.signal(signal.SIGINT, _interrupter(client))
    _core.repeat_interrupts()
    channel = transport.connect(config.address, FromScheduler)
    output = Output(client, channel, config.log_dir)
    if config.worker_setup:
        resolve(config.worker_setup)(client, output, config)
    output.install()
    channel.send(Hello("worker", os.getpid(), index=client.index))  # ready; what ends before this has failed to start
    while (task := client.run()) >= 0:
        if (instance := actor.construct(client, hooks, task)) is not None:
            _core.set_process_name(f"cm:{type(instance).__name__}")
            if label := actor.label(instance):
                output.name = label
                hooks.name_actor(label)
            actor.serve(client, instance)
            break
    atexit._run_exitfuncs()  # a worker that is killed does not come here, one that is told to leave does
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
    faulthandler.enable(stacks)  # a crash in C code: its Python stack goes into the report of the death
    faulthandler.register(STACK_SIGNAL, file=stacks, all_threads=True)


def _prepare_interpreter(config: SessionConfig) -> None:
    """What a task may expect of its process: the driver's import path, an empty __main__, random numbers of its own."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(OOM_SCORE))
    except OSError:  # some sandboxes do not let anybody choose
        pass
    own = [path for path in sys.path if path not in config.sys_path]
    sys.path[:] = [*config.sys_path, *own]
    sys.argv[:] = [""]
    sys.modules["__main__"] = types.ModuleType("__main__")
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:  # Python's own generator seeds itself after a fork, this one does not
        numpy_random.seed()


def _interrupter(client: Any) -> Callable[[int, object], None]:
    """SIGINT is how the core interrupts a task that is to be cancelled; by the time it arrives, another one may run."""
    def interrupt(signum: int, frame: FrameType | None) -> None:
        if not client.cancelled():
            return
        if _is_importing(frame):  # half a module would stay behind for this worker's other tasks: soon again
            again = threading.Timer(RETRY_S, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            again.start()
        else:
            raise KeyboardInterrupt
    return interrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False
