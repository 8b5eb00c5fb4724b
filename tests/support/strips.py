"""What is seen under a cell of `%%ranks` in a real kernel."""

from __future__ import annotations

from typing import Any

from .kernels import Kernel, plain, reply_of


def strip(kernel: Kernel, request: str) -> dict[str, Any]:
    """What is seen in the end of the display under a cell; {} if there is none."""
    shown: dict[str, dict[str, Any]] = {}
    for message in list(kernel.messages):
        if message["msg_type"] in ("display_data", "update_display_data"):
            content = message["content"]
            if message["msg_type"] == "update_display_data" and content["transient"]["display_id"] not in shown:
                continue
            if message["msg_type"] == "update_display_data" or message["parent_header"].get("msg_id") == request:
                shown[content["transient"]["display_id"]] = content["data"]
    assert len(shown) <= 1, "one strip for a cell"
    return next(iter(shown.values()), {})


def text(kernel: Kernel, request: str) -> str:
    return strip(kernel, request).get("text/plain", "")


def failed(kernel: Kernel, code: str) -> tuple[str, str]:
    """The error of a cell, and what its strip says."""
    request = kernel.start(code)
    assert reply_of(kernel, request)["status"] == "error"
    shown = "\n".join(line for m in kernel.of(request, "error") for line in m["content"]["traceback"])
    return plain(shown), text(kernel, request)
