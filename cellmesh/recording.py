"""Sessions that have been saved, as tables: ``.cellmesh`` files, which the panel and `%graph --save` write.

cm.recording.open_recording("run.cellmesh").tasks.to_pandas()
"""

from __future__ import annotations

from .observe.recording import Recording, RecordingError, open_recording

__all__ = ["Recording", "RecordingError", "open_recording"]
