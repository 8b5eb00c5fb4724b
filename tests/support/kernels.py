"""Real kernels, driven as a front end drives them: through jupyter_client, without a browser."""

from __future__ import annotations

import ast
import os
import queue
import re
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop
from support.waiting import wait_until

ensure_event_loop()  # the main thread's stays open; made here, it is there before any test looks at what it leaves

START_TIMEOUT_S = 60.0
Message = dict[str, Any]


class Kernel:
    """A kernel and everything that it has published.

    A thread collects what comes on iopub, as a front end does, so that nothing depends on who reads when.
    """

    def __init__(self, tmp_path: Any, argv: list[str] | None = None) -> None:
        env = {
            **os.environ,
            "IPYTHONDIR": str(tmp_path / "ipython"),
            "JUPYTER_DATA_DIR": str(tmp_path / "data"),
            "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }
        self.manager = KernelManager(kernel_name="python3", connection_file=str(tmp_path / "kernel.json"))
        if argv is not None:
            self.manager._kernel_spec = KernelSpec(
                argv=argv, language="python", display_name="a kernel of its own making"
            )
        self.manager.start_kernel(env=env)
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=START_TIMEOUT_S)
        self.messages: list[Message] = []
        self._stopped = threading.Event()
        self._start_reading()

    def _start_reading(self) -> None:
        self._stopped.clear()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _stop_reading(self) -> None:
        self._stopped.set()
        self._reader.join()

    def _read(self) -> None:
        # jupyter_client runs on an event loop of the thread's own, and leaves its end to the garbage collector; but
        # another loop may know the channel's socket still, and through it this one.
        with closing(ensure_event_loop()):
            while not self._stopped.is_set():
                try:
                    self.messages.append(self.client.get_iopub_msg(timeout=0.1))
                except queue.Empty:
                    continue

    def close(self) -> None:
        """End the kernel."""
        self._stop_reading()
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)
        self.manager.cleanup_resources()

    def _status(self) -> int | None:
        """Its exit status, if it has ended."""
        process = getattr(self.manager.provisioner, "process", None)
        return None if process is None else process.poll()

    def restart(self) -> None:
        """A new kernel in place of this one, as the button of a front end makes it."""
        self.manager.restart_kernel(now=False)
        self._stop_reading()  # a socket is for one thread
        self.client.wait_for_ready(timeout=START_TIMEOUT_S)
        self._start_reading()

    # --- doing

    def start(self, code: str, cell_id: str = "", interactive: bool = True) -> str:
        """Begin to execute a cell; returns the id of the request. `interactive`: as from a front end in which somebody
        could type.
        """
        message = self.client.session.msg(
            "execute_request",
            {
                "code": code,
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": interactive,
                "stop_on_error": True,
            },
            metadata={"cellId": cell_id} if cell_id else {},
        )
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def wait(self, request: str, deadline: float = 30.0) -> None:
        """Wait until a request has been done."""

        def is_done() -> bool:
            status = self._status()
            for message in self.of(request, "status"):
                if message["content"]["execution_state"] == "idle":
                    return True
            assert not status, f"the kernel has ended with status {status}"  # 0: what it has said last may still come
            return False

        wait_until(is_done, deadline, f"the end of {request}")

    def run(self, code: str, deadline: float = 30.0, interactive: bool = True) -> str:
        """Execute a cell to its end; fails if it raises. Returns the id of the request."""
        request = self.start(code, interactive=interactive)
        self.wait(request, deadline)
        errors = ["\n".join(m["content"]["traceback"]) for m in self.of(request, "error")]
        assert not errors, errors[0]
        return request

    def ask(self, deadline: float = 20.0, **content: Any) -> Message:
        """A request to cellmesh on the control channel; the content of its reply."""
        message = self.client.session.msg("cellmesh_request", content)
        self.client.control_channel.send(message)
        end = time.monotonic() + deadline
        while True:
            reply = self.client.get_control_msg(timeout=end - time.monotonic())
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                assert reply["msg_type"] == "cellmesh_reply"
                return reply["content"]

    # --- what has been published

    def of(self, request: str, *types: str) -> list[Message]:
        """Messages under one cell."""
        return [
            m
            for m in list(self.messages)
            if m["parent_header"].get("msg_id") == request and (not types or m["msg_type"] in types)
        ]

    def text(self, request: str, stream: str = "stdout") -> str:
        """What stands under a cell, by now."""
        return "".join(m["content"]["text"] for m in self.of(request, "stream") if m["content"]["name"] == stream)

    def until_text(
        self, request: str, condition: Callable[[str], bool], stream: str = "stdout", deadline: float = 15.0
    ) -> str:
        """Wait until the text under a cell is as wanted."""
        try:
            wait_until(lambda: condition(self.text(request, stream)), deadline)
        except AssertionError:
            raise AssertionError(f"under the cell stands: {self.text(request, stream)!r}") from None
        return self.text(request, stream)

    def comm(self, comm_id: str) -> list[Message]:
        """Messages on a comm, in order."""
        return [m for m in list(self.messages) if m["msg_type"] == "comm_msg" and m["content"]["comm_id"] == comm_id]


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def result(kernel: Kernel, request: str) -> str:
    """What a cell shows as its result, as text."""
    shown = kernel.of(request, "execute_result")
    return shown[0]["content"]["data"]["text/plain"] if shown else ""


def value(kernel: Kernel, expression: str) -> Any:
    """The value of an expression in the kernel, by its repr."""
    return ast.literal_eval(result(kernel, kernel.run(f"({expression})")))


def reply_of(kernel: Kernel, request: str) -> dict[str, Any]:
    """The reply to a cell that has ended."""
    kernel.wait(request)
    while True:
        reply = kernel.client.get_shell_msg(timeout=10)
        if reply["parent_header"].get("msg_id") == request:
            return reply["content"]


def error(kernel: Kernel, code: str) -> tuple[str, str]:
    """Name and text of the error that a cell ends with, as a person sees it."""
    request = kernel.start(code)
    reply = reply_of(kernel, request)
    assert reply["status"] == "error", f"no error: {code}"
    shown = [line for m in kernel.of(request, "error") for line in m["content"]["traceback"]]
    return reply["ename"], plain("\n".join(shown) + kernel.text(request, "stderr"))


def talk(kernel: Kernel, code: str, *lines: str, prompt: str = "(pdb) ") -> str:
    """Run a cell that asks for lines, and give it these; what it has said, all together."""
    request = kernel.start(code)
    for line in lines:
        assert kernel.client.get_stdin_msg(timeout=20)["content"]["prompt"] == prompt
        kernel.client.input(line)
    kernel.wait(request)
    assert not kernel.of(request, "error")
    return plain(kernel.text(request))


def ipython_in_terminal(folder: Any, timeout: float, n_columns: int) -> Any:
    """A `pexpect.spawn` of IPython in a terminal that is so wide. `timeout`: for what is expected of it, in seconds."""
    import pexpect

    return pexpect.spawn(
        sys.executable,
        ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        encoding="utf-8",
        timeout=timeout,
        dimensions=(40, n_columns),
        env={**os.environ, "IPYTHONDIR": str(folder), "TERM": "xterm", "PYTHONUNBUFFERED": "1"},
    )
