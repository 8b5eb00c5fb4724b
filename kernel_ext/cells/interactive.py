"""Whether cells run interactively, for a person, or in batch: a program runs the notebook to save it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def is_interactive(request: Mapping[str, Any]) -> bool:
    """Whether a request to execute came from a front end with a person before it.

    A program that runs a notebook for later readers (nbconvert, papermill) answers no questions. Voilà answers none
    either, but a person sits before its page.
    """
    return bool(request.get("content", {}).get("allow_stdin", True)) or bool(
        {"VOILA_BASE_URL", "VOILA_PREHEAT"} & os.environ.keys()
    )
