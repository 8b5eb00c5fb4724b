"""Records that tasks have logged, for the handlers of this process.

A record that no handler here may want is, as in any Python program, a line on stderr from WARNING on. It is shown as
what tasks print, which says whose it is and folds equal lines.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback

from ..scheduler.ipc.messages import WorkerOutput


def record_of(piece: WorkerOutput) -> logging.LogRecord:
    """The record that a task has logged. Its traceback is text."""
    record = logging.makeLogRecord({})
    since_start = record.relativeCreated - 1000 * record.created
    vars(record).update(json.loads(piece.bundle))
    record.relativeCreated = since_start + 1000 * record.created  # of this process, as for its own records
    return record


def has_handlers(record: logging.LogRecord) -> bool:
    """Whether there is a handler here on the way of such records."""
    return logging.getLogger(record.name).hasHandlers()


def is_for_stderr(record: logging.LogRecord) -> bool:
    """Whether a record for which there is no handler is shown."""
    last, logger = logging.lastResort, logging.getLogger(record.name)
    return last is not None and record.levelno >= last.level and not logger.disabled and bool(logger.filter(record))


def hand_over(record: logging.LogRecord) -> None:
    """Have the filters and handlers here handle it. What these raise is shown, and ends nothing."""
    try:
        logging.getLogger(record.name).handle(record)
    except (Exception, SystemExit):  # the user's code, in a thread of ours
        print("cellmesh: a handler or filter of logging has raised, given the record of a task:", file=sys.stderr)
        traceback.print_exc()
