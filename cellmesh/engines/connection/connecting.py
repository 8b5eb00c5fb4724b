"""The beginning of an engine, whose library may not be here, and may never come back."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from ...exceptions import EngineError, EngineUnreachableError, EngineVersionError
from ...text import first_line
from ..interface import Engine, Event, Facts

CONNECT_S = 60.0  # for a library to find its engine: some try for a quarter of an hour
BY_CLIENT_S = 120.0  # for Ray Client, which has a process begin there first, and then the relay's


def imported(name: str) -> Any:
    """The library of an engine.

    Raises
    ------
    EngineVersionError
        It is not installed here.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise EngineVersionError(
            f"this program's Python, {sys.executable}, cannot import {name} ({error}): install the version that the "
            "cluster has"
        ) from None


def connected(engine: Engine, address: str, options: Mapping[str, Any], tell: Callable[[Event], None]) -> Facts:
    """Connect an engine, in a thread that is left alone if nothing comes of it.

    Raises
    ------
    EngineError
        It cannot be connected, or nothing came within `CONNECT_S`, or `BY_CLIENT_S`, or what the option "timeout" says.
    """
    timeout_s: float = options.get("timeout", BY_CLIENT_S if address.startswith("ray://") else CONNECT_S)
    came: queue.SimpleQueue[Facts | Exception] = queue.SimpleQueue()

    def connect() -> None:
        try:
            came.put(engine.connect(address, options, tell))
        except Exception as error:
            came.put(error)

    threading.Thread(target=connect, name="cellmesh-connect", daemon=True).start()
    try:
        found = came.get(timeout=timeout_s)
    except queue.Empty:
        raise EngineUnreachableError(f"{address} does not answer: nothing came for {timeout_s:g} s") from None
    if isinstance(found, EngineError):
        raise found
    if isinstance(found, Exception):  # whatever a library says whose credentials are wrong
        raise EngineError(f"{address} cannot be used: {first_line(found)}") from found
    return found
