"""Pickles of code for other processes, with the names of the files that the code is from.

cloudpickle pickles functions and classes that no import finds, such as those of a notebook. From 3.1.3 on it names no
file in them, so that one function always has one pickle; a traceback has line numbers alone then, and neither it nor
`inspect` or a debugger finds the source. Whatever cellmesh pickles with cloudpickle, it pickles through here.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import TYPE_CHECKING, Any, ClassVar

import cloudpickle

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

PROTOCOL = 5
FILENAME = 10  # where CodeType takes the name of its file, as of Python 3.11


def reduce_code(code: CodeType) -> Any:
    """A code object's parts for pickle, with the name of its file; code within it comes here by itself."""
    make, args = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, (*args[:FILENAME], code.co_filename, *args[FILENAME + 1 :])


class Pickler(cloudpickle.Pickler):
    """cloudpickle's, with names of files."""

    # What libraries register with `copyreg` while a program runs is seen through cloudpickle's own table.
    dispatch_table: ClassVar[Any] = ChainMap({CodeType: reduce_code}, cloudpickle.Pickler.dispatch_table)


def dump(value: object, file: SupportsWrite[bytes]) -> None:
    """Write a value's pickle, refs and large buffers within it."""
    Pickler(file, protocol=PROTOCOL).dump(value)


def dumps(value: object) -> bytes:
    """A value's pickle, refs and large buffers within it."""
    file = io.BytesIO()
    dump(value, file)
    return file.getvalue()
