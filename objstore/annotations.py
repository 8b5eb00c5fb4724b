"""Signatures and annotations of whatever a notebook defines.

Python 3.14 evaluates annotations when somebody asks for them, and a name in them need not be defined by then: by itself
it raises NameError for a function that runs well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

_AS_FAR_AS_DEFINED: dict[str, Any] = (
    {"annotation_format": import_module("annotationlib").Format.FORWARDREF} if sys.version_info >= (3, 14) else {}
)


def get_signature(function: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """As `inspect.signature`; what is not defined stays in annotations by its name."""
    return inspect.signature(function, follow_wrapped=follow_wrapped, **_AS_FAR_AS_DEFINED)


def can_be_evaluated(owner: Any) -> bool:
    """Whether the annotations of a function or class can be, as they always can before Python 3.14."""
    try:
        return owner.__annotations__ is not None
    except Exception:  # whatever an annotation raises
        return False


def annotations_of(owner: Any) -> dict[str, Any]:
    """Those of a function or class; where one cannot be evaluated, all are their texts."""
    if can_be_evaluated(owner):
        return owner.__annotations__
    annotationlib: Any = import_module("annotationlib")
    return annotationlib.get_annotations(owner, format=annotationlib.Format.STRING)
