"""What trials report, in formats that others read; never written unless it is asked for.

A logger is a callback, `Tuner(..., callbacks=[CSVLogger("digits-csv")])`, which writes while the experiment runs; or an
export of the journal, at any time: `experiment.export("csv", "digits-csv")`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .base import Logger as Logger
from .csv_files import CSVLogger as CSVLogger
from .json_lines import JSONLogger as JSONLogger
from .tensorboard import TensorBoardLogger as TensorBoardLogger

LOGGERS: dict[str, Callable[[Path], Logger]] = {
    "csv": CSVLogger,
    "json": JSONLogger,
    "tensorboard": TensorBoardLogger,
}


def make(kind: str, path: str | Path) -> Logger:
    """The logger of a kind, "csv", "json" or "tensorboard", that writes below a folder.

    Raises
    ------
    ValueError
        There is no such kind.
    ModuleNotFoundError
        It needs a package that is not installed; the message says which.
    """
    if kind not in LOGGERS:
        raise ValueError(f"{kind!r}: there is no such format, there are {', '.join(LOGGERS)}")
    return LOGGERS[kind](Path(path))
