"""`ray.util.metrics`. As Ray's do, these take tags that are not among their `tag_keys`, and leave them out."""

from __future__ import annotations

from collections.abc import Sequence

from ....observe import metrics as _ours
from ....observe.metrics import Tags
from ... import missing as _missing

__all__ = ["Counter", "Gauge", "Histogram"]
__getattr__: _missing.NoSuchName = _missing.no_such_name("ray.util.metrics")


class _Lenient(_ours._Metric):
    def _change(
        self, value: float, tags: Tags | None, boundaries: Sequence[float] = (), counts: Sequence[int] = ()
    ) -> None:
        known = {key: tag for key, tag in (tags or {}).items() if key in self._tag_keys}
        super()._change(value, known, boundaries, counts)


class Counter(_Lenient, _ours.Counter):
    __doc__ = _ours.Counter.__doc__


class Gauge(_Lenient, _ours.Gauge):
    __doc__ = _ours.Gauge.__doc__


class Histogram(_Lenient, _ours.Histogram):
    __doc__ = _ours.Histogram.__doc__
