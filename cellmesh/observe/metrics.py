"""Metrics of the user's programs: counters, gauges and histograms, from any process of a session.

    requests = cellmesh.util.metrics.Counter("requests", tag_keys=("route",))
    requests.inc(tags={"route": "/"})
    cellmesh.state.metrics()

Each process gathers what changes and tells the local scheduler, which adds it up; so what a process that is killed did
in its last tenth of a second may be missing.
"""

from __future__ import annotations

import atexit
import bisect
import math
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from ..scheduler.ipc.messages import (
    MAX_BUCKETS,
    MAX_NAME_CHARS,
    MAX_SERIES,
    MAX_TAGS,
    MetricChanges,
    MetricsReply,
    MetricsRequest,
    Series,
)
from ..scheduler.local_scheduler.metric_sums import MAX_BYTES, Sums
from ..scheduler.sync.condition import Condition
from ..scheduler.sync.threads import ServiceThread
from ..session.current import current, running
from ..session.scheduler_client import ask
from ..session.session import Session
from ..submit.option_values import is_number
from ..text import is_name

INTERVAL_S = 0.1  # between two messages of a process
REPLY_TIMEOUT_S = 5.0
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_TAG = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

Tags = Mapping[str, str]


# ---------------------------------------------------------------- what users make
def _wrong(is_typed: bool) -> type[Exception]:
    """How a wrong argument is told: a value of a type that is never taken is a TypeError, as for Python's own calls."""
    return ValueError if is_typed else TypeError


class _Metric:
    """A named number, or one for each combination of tags."""

    kind: ClassVar[Any]

    def __init__(self, name: str, description: str = "", tag_keys: Sequence[str] | None = None) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS:
            raise _wrong(isinstance(name, str))(
                f"{type(self).__name__}(name={name!r}): must be a name of letters, digits, _ and :, not beginning with "
                f"a digit, of at most {MAX_NAME_CHARS} characters"
            )
        keys = () if tag_keys is None else tag_keys
        is_typed = isinstance(keys, Collection) and not isinstance(keys, str) and all(isinstance(k, str) for k in keys)
        if not is_typed or len(keys) > MAX_TAGS or not all(is_name(key) and _TAG.fullmatch(key) for key in keys):
            raise _wrong(is_typed)(
                f"{type(self).__name__}(tag_keys={tag_keys!r}): must be a tuple of at most {MAX_TAGS} names of "
                f"letters, digits and _, each of at most {MAX_NAME_CHARS} characters"
            )
        self._name, self._description, self._tag_keys = name, str(description)[:MAX_NAME_CHARS], tuple(keys)
        self._default_tags: dict[str, str] = {}

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, keys of tags, default tags."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": dict(self._default_tags),
        }

    def set_default_tags(self, default_tags: Tags) -> Any:
        """Values for the tags that a call does not give. Returns the metric."""
        self._default_tags = self._checked(default_tags)
        return self

    def _checked(self, tags: Tags | None) -> dict[str, str]:
        for key, value in (tags or {}).items():
            if key not in self._tag_keys or not (value == "" or is_name(value)):
                raise _wrong(isinstance(value, str))(
                    f"tag {key!r}: {value!r} of metric {self._name!r}: tags are strings of at most {MAX_NAME_CHARS} "
                    f"characters, with the keys {', '.join(self._tag_keys) or 'none (tag_keys)'}"
                )
        return dict(tags or {})

    def _change(
        self, value: float, tags: Tags | None, boundaries: Sequence[float] = (), counts: Sequence[int] = ()
    ) -> None:
        merged = {**self._default_tags, **self._checked(tags)}
        if missing := [key for key in self._tag_keys if key not in merged]:
            raise ValueError(
                f"metric {self._name!r} needs a value for the tag {', '.join(map(repr, missing))}: give it in tags= "
                "or by set_default_tags()"
            )
        _outbox_of(current()).put(
            Series(self._name, self.kind, self._description, merged, value, list(boundaries), list(counts))
        )

    def _number(self, value: Any, allowed: str, valid: bool) -> float:
        if not is_number(value) or not math.isfinite(value) or not valid:
            raise _wrong(is_number(value))(f"{value!r} of metric {self._name!r}: must be {allowed}")
        return float(value)


class Counter(_Metric):
    """A sum that only grows.

    Parameters
    ----------
    name, description : str
    tag_keys : tuple of str
        Each combination of their values is counted apart.
    """

    kind = "counter"

    def inc(self, value: float = 1.0, tags: Tags | None = None) -> None:
        """Add `value`, a number > 0."""
        self._change(self._number(value, "a number > 0", is_number(value) and value > 0), tags)


class Gauge(_Metric):
    """A number that goes up and down; of several processes the last one that sets it counts.

    Parameters
    ----------
    name, description : str
    tag_keys : tuple of str
        Each combination of their values is a number of its own.
    """

    kind = "gauge"

    def set(self, value: float, tags: Tags | None = None) -> None:
        """It is `value` now."""
        self._change(self._number(value, "a finite number", True), tags)


class Histogram(_Metric):
    """How many observed numbers lie between which boundaries.

    Parameters
    ----------
    name, description : str
    boundaries : list of float
        Growing. A number that equals a boundary lies below it.
    tag_keys : tuple of str
    """

    kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: Sequence[float] | None = None,
        tag_keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        self._boundaries = [self._number(b, "growing finite boundaries", True) for b in boundaries or ()]
        if not 0 < len(self._boundaries) <= MAX_BUCKETS or self._boundaries != sorted(set(self._boundaries)):
            raise ValueError(
                f"Histogram(boundaries={boundaries!r}): must be numbers that grow, at most {MAX_BUCKETS}, such as "
                "[0.1, 1, 10]"
            )

    def observe(self, value: float, tags: Tags | None = None) -> None:
        """Count a number."""
        number = self._number(value, "a finite number", True)
        counts = [0] * (len(self._boundaries) + 1)
        counts[bisect.bisect_left(self._boundaries, number)] = 1
        self._change(number, tags, self._boundaries, counts)


# ---------------------------------------------------------------- on their way
class _Outbox:
    """Gathers the changes of this process in a session; a thread sends them, at once and then every `INTERVAL_S` at
    most.
    """

    def __init__(self, of: Session) -> None:
        self.of = of
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # who flushes at the end waits for what the thread has taken
        self._sums = Sums()
        self._is_over = False
        self._changed = Condition()
        self._thread = ServiceThread(self._run, "cellmesh-metrics")
        of.bound.add(self)
        if of.is_worker:
            atexit.register(self.flush)
        self._thread.start()

    def put(self, change: Series) -> None:
        with self._lock:
            refused = self._sums.add([change])
        if refused:
            raise ValueError(
                f"metric {change.name!r}: more than {MAX_SERIES} combinations of names and tags, or {MAX_BYTES >> 20} "
                "MiB of them; tags are for few values, not for ids"
            )
        self._changed.notify_all()

    def flush(self) -> None:
        """Send what there is."""
        with self._sending:
            with self._lock:
                changes, self._sums = self._sums.all(), Sums()
            if changes:
                self.of._send(MetricChanges(changes))

    def _run(self) -> None:
        while not self._is_over:
            self._changed.wait_for(lambda: self._sums or self._is_over)
            self.flush()
            self._changed.wait_for(lambda: self._is_over, INTERVAL_S)

    # ---- as the session knows it
    def unbind(self) -> None:
        """The session ends."""
        global _outbox
        _outbox = None if _outbox is self else _outbox
        self._is_over = True
        self._changed.notify_all()
        self._thread.join()

    def uses_export(self, export: object) -> bool:
        """It has no code of the user."""
        return False


_outbox: _Outbox | None = None
_making = threading.Lock()


def _outbox_of(of: Session) -> _Outbox:
    global _outbox
    with _making:
        if _outbox is None or _outbox.of is not of:
            _outbox = _Outbox(of)
        return _outbox


# ---------------------------------------------------------------- looking
def rows() -> list[dict[str, Any]]:
    """A row for each series: name, kind, tags, value (of a histogram the sum), count, buckets, description."""
    of = running()
    if of.is_worker:
        raise RuntimeError("metrics are read by drivers; a task passes its numbers on as results")
    if _outbox is not None and _outbox.of is of:
        _outbox.flush()
    reply = ask(of.node.link, MetricsRequest, MetricsReply, REPLY_TIMEOUT_S)
    return [
        {
            "name": s.name,
            "kind": s.kind,
            "tags": s.tags,
            "value": s.value,
            "count": sum(s.counts),
            "buckets": dict(zip([*s.boundaries, math.inf], s.counts, strict=False)),
            "description": s.description,
        }
        for s in reply.series
    ]


def prometheus(found: Sequence[Mapping[str, Any]], **labels: str) -> str:
    """Rows as Prometheus reads them; `labels` are added to each."""
    lines: list[str] = []
    told = set()
    for row in found:
        name, kind = row["name"], row["kind"]
        if name not in told:
            told.add(name)
            lines += [f"# HELP {name} {_escaped(row['description'])}"] if row["description"] else []
            lines.append(f"# TYPE {name} {kind}")
        tags = {**labels, **row["tags"]}
        if kind != "histogram":
            lines.append(f"{name}{_labels(tags)} {row['value']:.17g}")
            continue
        below = 0
        for boundary, count in row["buckets"].items():
            below += count
            le = "+Inf" if math.isinf(boundary) else f"{boundary:g}"
            lines.append(f"{name}_bucket{_labels({**tags, 'le': le})} {below}")
        lines += [f"{name}_sum{_labels(tags)} {row['value']:.17g}", f"{name}_count{_labels(tags)} {row['count']}"]
    return "".join(f"{line}\n" for line in lines)


def _labels(tags: Tags) -> str:
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in tags.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
