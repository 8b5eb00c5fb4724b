"""What Tune raises. The tree's root is `cellmesh.exceptions.CellmeshError`."""

from __future__ import annotations

import os
import traceback

from ..exceptions import CellmeshError


class TuneError(CellmeshError):
    """An experiment cannot be begun or cannot go on; the text says why and what helps."""


class ExperimentExistsError(TuneError, FileExistsError):
    """There is an experiment of that name already."""


class ExperimentNotFoundError(TuneError, FileNotFoundError):
    """There is no experiment of that name."""


class ExperimentBusyError(TuneError):
    """Another controller runs the experiment."""


class JournalError(TuneError):
    """A journal cannot be read: it is damaged, or a newer version has written it."""


class TuneWarning(UserWarning):
    """What an experiment's controller tells of: the metric that nobody reports, a callback that raises, a full disk."""


class StopTrial(BaseException):
    """Raised inside a trial by `report`: the trial is to end, or to pause. Let it pass; `finally` blocks run. It is no
    `Exception`, so that `except Exception` does not stop it.
    """


# ---- how what others have raised is told
def in_words(error: BaseException) -> str:
    """Kind and text, in one line."""
    return f"{type(error).__name__}: {error}".rstrip(": ")


def where(error: BaseException) -> str:
    """The user's line that raised first, in brackets behind a space; "" if it is not known."""
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if f"{os.sep}cellmesh{os.sep}" not in frame.filename] or frames
    return f" ({frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line})" if frames else ""
