"""Ray, whose own types are where it is installed."""

from typing import Any

def __getattr__(name: str) -> Any: ...
