"""Temporary folders that go with the session, however the process ends that has made them."""

from __future__ import annotations

import os
import tempfile

from ..scheduler.node.offload_dir import SCRATCH
from ..scheduler.node.session_dir import OBJECTS_NAME
from .current import current_or_none


def scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """One on a disk, beside the objects that memory has no room for; in the temporary folder, if there is no such place
    on this machine.
    """
    of = current_or_none()
    objects = os.path.join(of.node.session_dir, OBJECTS_NAME) if of is not None else ""
    parent = os.path.realpath(objects) if os.path.isdir(objects) else None
    return tempfile.TemporaryDirectory(prefix=SCRATCH, dir=parent)
