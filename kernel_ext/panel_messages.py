"""Every message between the kernel and the panel, and nothing else defines the format.

Kernel to front end: a *snapshot*, then *deltas* with consecutive numbers, as ``comm_msg`` on iopub: a small JSON header
(`Snapshot`, `Delta`) and twelve typed arrays as binary buffers (`BUFFERS`), because a hundred thousand rows of JSON
would cost a second of parsing where typed arrays are used as they arrive. A gap in the numbers means that something was
lost on the way; the panel then asks for a new snapshot (`Resync`).

Experiments of Tune travel beside the graph, on the same comm: `Experiments` says which there are, and `Trials` with
its arrays (`TRIAL_BUFFERS`) what has become of the trials of the one that a front end looks at. So do runs of learning:
`Learning` says which there are, and `LearningPoints` with its array (`LEARNING_BUFFERS`) what they have computed.

Front end to kernel: a request (`Request`, told apart by ``op``) on the *control* channel, answered by one reply. The
control channel answers while a cell runs; shell messages would wait for it.

The version stands in each header and in the answer to `Hello`; a panel that knows another version says so instead of
misreading. The JSON schema of all this is exported with ``python -m cellmesh.kernel_ext.panel_messages`` and lies in
`labextension/src/protocol/schema.json`; a test fails when they differ. The panel's types and the code that checks what
arrives there are made from that file (``npm run generate``).
"""

from __future__ import annotations

import json
from inspect import cleandoc
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast, get_args

import msgspec

from ..observe.states import ACTORS, LINES, NODES, OBJECTS, PLACES, UNKNOWN, Kind, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

VERSION = 6
COMM_TARGET = "cellmesh"  # comms that the panel opens
ANNOUNCE_TARGET = "cellmesh.announce"  # the comm by which the kernel says that it is there
REQUEST_TYPE = "cellmesh_request"  # message types on the control channel
REPLY_TYPE = "cellmesh_reply"

# A frame of a display is 16 ms; half that rate looks continuous, and the server allows 1000 messages/s in all.
MESSAGES_PER_SECOND = 30
# What a slow home connection carries beside everything else.
BYTES_PER_SECOND = 1_000_000
# After a quiet time this much may go at once: a snapshot of some ten thousand tasks appears in one go.
BURST_BYTES = 4_000_000
# One message decodes within a frame.
MESSAGE_BYTES = 1_000_000
# Front ends of one kernel. A page that is reloaded does not say goodbye; the oldest subscription gives way.
N_SUBSCRIPTIONS_MAX = 8


NO_WORKER = 255
FIRST_REMOTE_WORKER = 256  # processes of other machines; client slots of this one are lower
PUT_NAMES = ("put", "argument", "item")  # objects that no task has made, by why they were put (`event_put` in event.h)
N_SAMPLES_MAX = 1200  # of each machine; a snapshot carries them all, some 60 kB
N_COLLECTIVES_MAX = 20_000  # kept, of all ranks together
N_LINES_MAX = 50_000  # that tasks have printed; kernel and panel forget the oldest
N_EXPERIMENTS_MAX = 32  # that are followed: more than anybody looks at; the oldest give way
N_RUNS_MAX = 32  # of learning that are kept, likewise
N_POINTS_MAX = 256  # of a trial's curve: more than the pixels of a curve in a panel
# Of all curves together: 12 bytes each, so an experiment of any size arrives within the burst.
N_CURVE_POINTS = 200_000
N_POINTS_MIN = 16  # of a trial's curve, however many trials there are
N_COLUMNS_MAX = 32  # metrics, and as many parameters: a table that nobody can read is wide enough
N_WORDS_MAX = 256  # different values of a parameter that is no number; further ones are not told apart
TEXT_CHARS_MAX = 2_000  # of a trial's error
TRIAL_STATES = (
    "pending",
    "running",
    "paused",
    "ended",
    "failed",
)  # in the order of Tune's (`tune/control/trial.py`)


class Buffer(NamedTuple):
    """One binary buffer: its name, numpy dtype and number of items, the latter in terms of the header's fields."""

    name: str
    dtype: str
    items: str
    meaning: str


BUFFERS = (
    Buffer(
        "new_u32",
        "<u4",
        "5 * new",
        "columns of the new rows, column after column: function, cell,"
        " actor + 1 (0 none), parent row + 1 (0 none), kind",
    ),
    Buffer("new_submitted", "<f8", "new", "when each new row was submitted; NaN unknown"),
    Buffer("update_row", "<u4", "updates", "rows that changed, each at most once in a message"),
    Buffer("update_state", "u1", "updates", "state"),
    Buffer("update_worker", "<u2", "updates", "worker, 255 none; from 256 on one of another machine"),
    Buffer(
        "update_started",
        "<f8",
        "updates",
        "start of the latest attempt; NaN none; on another machine, until its start is known: when it was sent",
    ),
    Buffer("update_finished", "<f8", "updates", "end; NaN none; on another machine: when its result was here"),
    Buffer("update_size", "<f8", "updates", "size of the result in bytes; NaN unknown"),
    Buffer("edges", "<u4", "2 * edges", "pairs (source row, target row): the target depends on the source"),
    Buffer(
        "remote_row",
        "<u4",
        "remote",
        "those of the rows that changed whose latest attempt ran, or is to run, on another machine",
    ),
    Buffer("remote_times", "<f8", "2 * remote", "when each was sent, then when each ended there; NaN unknown"),
    Buffer(
        "calls",
        "<f8",
        "2 * calls",
        "pairs (row, time): of rows among the updates whose code or arguments took long to load,"
        " when the user's code began; of all others it is when they started",
    ),
)
TRIAL_BUFFERS = (
    Buffer("trial", "<u4", "changed", "trials that are new or have changed, each at most once in a message"),
    Buffer("state", "u1", "changed", "state"),
    Buffer("iteration", "<u4", "changed", "the latest result's training_iteration; 0 none"),
    Buffer(
        "times",
        "<f8",
        "3 * changed",
        "columns: when each was suggested, first began, and ended; NaN it has not",
    ),
    Buffer("metrics", "<f8", "values", "the latest result, metric after metric; NaN none"),
    Buffer("parameters", "<f8", "settings", "numbers, or indices of words, parameter after parameter; NaN none"),
    Buffer("lengths", "<u4", "changed", "how many points each trial's whole curve has"),
    Buffer("at", "<f4", "points", "when each point of the curves was reported"),
    Buffer("x", "<f4", "points", "its training_iteration"),
    Buffer("y", "<f4", "points", "the metric"),
)
LEARNING_BUFFERS = (
    Buffer(
        "values",
        "<f8",
        "values",
        "columns of the points: when each was added, then metric after metric; NaN none",
    ),
)
BYTES_PER_TRIAL = 4 + 1 + 4 + 3 * 8 + 4
BYTES_PER_VALUE = 8
BYTES_PER_POINT = 12
BYTES_PER_NEW = 5 * 4 + 8
BYTES_PER_UPDATE = 4 + 1 + 2 + 8 + 8 + 8
BYTES_PER_EDGE = 8
BYTES_PER_REMOTE = 4 + 2 * 8
BYTES_PER_CALL = 16

Count = Annotated[int, msgspec.Meta(ge=0)]
Row = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]
# A time that may not have come: the panel reads None as the number named here, so that times compare.
Ended = Annotated[float | None, msgspec.Meta(extra_json_schema={"x-none": "Infinity"})]
Began = Annotated[float | None, msgspec.Meta(extra_json_schema={"x-none": "NaN"})]
# Recordings of earlier versions lack the field, which then has its default; everything else must be in a message.
LATER = msgspec.Meta(extra_json_schema={"x-later": True})


def _named(name: str, words: Sequence[str] | None = None) -> msgspec.Meta:
    """For a text that is one of these words, or of a Literal's: the panel has a type of that name for it."""
    return msgspec.Meta(extra_json_schema={"x-type": name, **({"enum": list(words)} if words else {})})


ActorState = Annotated[str, _named("ActorState", ACTORS)]
NodeState = Annotated[str, _named("NodeState", NODES)]
LineState = Annotated[str, _named("LineState", LINES)]
ObjectState = Annotated[str, _named("ObjectState", OBJECTS)]
Place = Annotated[str, _named("Place", PLACES)]
WorkerState = Annotated[Literal["idle", "busy", "blocked", "actor", "dead", "remote"], _named("WorkerState")]
Mode = Annotated[Literal["min", "max"], _named("Mode")]
RunState = Annotated[
    Literal["running", "paused", "reached", "stopped", "diverged", "failed"], _named("RunState")
]  # as in `observe/learning.py`
Steering = Literal["stop", "pause", "resume"]
Stream = Annotated[Literal["stdout", "stderr"], _named("Stream")]
Outcome = Annotated[Literal["pending", "running", "finished"], _named("Outcome")]


class CellLabel(msgspec.Struct, frozen=True):
    """A run of a cell: as the notebook shows it (``"In [3]"``) and the notebook's id of the cell (``""`` if none)."""

    label: str
    id: str


class ActorLabel(msgspec.Struct, frozen=True):
    """An actor: its name (``""`` if none), class and state.

    `pid` is that of its latest process, 0 if there was none; `crashed`: it died because that ended unasked. Members of
    a group have a `rank` and the same `group`; "" and -1: it is none.
    """

    name: str
    cls: str
    state: ActorState
    pid: int = 0
    crashed: Annotated[bool, LATER] = False
    group: Annotated[str, LATER] = ""
    rank: Annotated[int, LATER] = -1


class WorkerLabel(msgspec.Struct, frozen=True):
    """A worker process and what it does (blocked: in get or wait; actor: it serves one); seconds of the session at
    which it began and ended, None while it has not.

    `node`: its machine, 0 for this one. On another machine the state is "remote" and `pid` is one of that machine, 0
    for tasks that have been sent there and have not begun, as far as is known.
    """

    pid: int
    state: WorkerState
    since: float = 0.0
    ended: Ended = None
    node: Count = 0


class NodeLabel(msgspec.Struct, frozen=True):
    """A machine: its name, the CPUs and GPUs that tasks may use together, bytes of memory, room for values.

    For machines other than this one: its number `id` in the cluster; its `state` and the `reason` for it; the seconds
    of the session at which it was seen first (`since`) and last (`ended`). For an engine, how many tasks may be under
    way there (`window`), where people look at it, its `address`, and the state of the line to it, since when.
    """

    name: str
    cpus: float = 0.0
    gpus: float = 0.0
    memory: Count = 0
    store: Count = 0
    id: str = ""
    state: NodeState = "alive"
    reason: str = ""
    since: float = 0.0
    ended: Ended = None
    window: Annotated[Count, LATER] = 0
    dashboard: Annotated[str, LATER] = ""
    address: Annotated[str, LATER] = ""
    line: Annotated[LineState, LATER] = ""
    line_since: Annotated[float, LATER] = 0.0


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """What a machine was doing at one time.

    `load`: share of its processors' time that was used, by anybody, since the sample before; `cpus`, `gpus`: what tasks
    had taken; `memory`, `store`, `disk`: bytes in use by anybody, by values, and by values that were moved to disk;
    `queued`: tasks that waited for room there.
    """

    node: Count
    at: float
    load: float = 0.0
    cpus: float = 0.0
    gpus: float = 0.0
    memory: Count = 0
    store: Count = 0
    disk: Count = 0
    queued: Count = 0


class Transfer(msgspec.Struct, frozen=True, array_like=True):
    """The bytes of a row's value (-1: of one without a row) on their way between this machine and another one: whether
    they come here, how many, since when; when that was over, None while it is not, and whether they arrived.
    """

    row: int
    node: Count
    comes: bool
    size: Count
    began: float
    ended: Ended = None
    complete: bool = False


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """An attempt at a task that was lost with its machine: the row, the worker there, when it was sent, began there
    (None: unknown), and was given up.
    """

    row: int
    worker: Count
    sent: float
    began: Began
    lost: float


class Collective(msgspec.Struct, frozen=True, array_like=True):
    """Collectives of a rank, one or several soon after each other: its worker, when the first began and when the last
    ended, None while it has not; the seconds in those that ended and how many these are; what the longest is.
    """

    worker: Count
    began: float
    ended: Ended
    inside: float
    calls: Count
    what: str


class Counts(msgspec.Struct, frozen=True):
    """Tasks by state; retrying ones are counted as queued. Puts are not tasks."""

    waiting: Count = 0
    queued: Count = 0
    running: Count = 0
    finished: Count = 0
    failed: Count = 0
    cancelled: Count = 0


class Resources(msgspec.Struct, frozen=True):
    """Amounts by kind (CPU, GPU, memory, custom ones)."""

    total: dict[str, float] = {}
    available: dict[str, float] = {}


class Store(msgspec.Struct, frozen=True):
    """The node's shared memory, in bytes, and the number of objects in it."""

    used: Count = 0
    capacity: Count = 0
    objects: Count = 0


class Header(msgspec.Struct, kw_only=True, tag_field="type"):
    """What snapshots and deltas have in common. Times are seconds since the session began.

    `tasks` counts every task there ever was; `aggregated` of them have no row, because the session has had more than
    the graph keeps. `dropped` events were overwritten before they could be read. `behind` rows, updates and edges wait
    for their turn. `functions`, `cells`, `actors`, `workers` and `nodes` hold only entries that are new or have
    changed, `samples`, `transfers`, `collectives` (both by number) and `losses` those that the front end has not had.
    `lines` have been printed by tasks; `Logs` asks for them. `errors`: what rows have failed with, in a line; not of
    those that failed only because what they needed did. Absent in older recordings.
    """

    v: int = VERSION
    n: Count = 0
    session: str = ""
    now: float = 0.0
    tasks: Count = 0
    aggregated: Annotated[Count, LATER] = 0
    dropped: Count = 0
    behind: Count = 0
    functions: list[tuple[Count, str]] = []
    cells: list[tuple[Count, CellLabel]] = []
    actors: list[tuple[Count, ActorLabel]] = []
    workers: list[tuple[Count, WorkerLabel]] = []
    nodes: list[tuple[Count, NodeLabel]] = []
    samples: list[Sample] = []
    transfers: list[tuple[Count, Transfer]] = []
    losses: list[Loss] = []
    collectives: Annotated[list[tuple[Count, Collective]], LATER] = []
    lines: Count = 0
    errors: Annotated[list[tuple[Row, str]], LATER] = []
    counts: Counts = Counts()
    resources: Resources = Resources()
    store: Store = Store()
    new: Count = 0
    updates: Count = 0
    edges: Count = 0
    remote: Count = 0
    calls: Count = 0


class Snapshot(Header, tag="snapshot"):
    """Kernel -> panel: forget what you have, rows are numbered from 0 again. `n` is 0.

    Sent after `Open` and `Resync`, and when a new session has begun. What does not fit follows in deltas.
    """


class Delta(Header, tag="delta"):
    """Kernel -> panel: what is new since the message before, whose number was one less.

    New rows come first in effect: updates and edges may name them. A task row is born waiting, an object row finished.
    """


GraphMessage = Snapshot | Delta


class TrialCounts(msgspec.Struct, frozen=True):
    """Trials by state."""

    pending: Count = 0
    running: Count = 0
    paused: Count = 0
    ended: Count = 0
    failed: Count = 0


class ExperimentLabel(msgspec.Struct, frozen=True):
    """An experiment of Tune: its folder, by which it is known, and its name; what it is about (`metric` is "" if
    nothing was named); seconds of the session at which it began and ended; why it is over; how its trials are; the best
    one (-1: none has a value yet) and its value.
    """

    path: str
    name: str
    metric: str = ""
    mode: Mode = "max"
    began: float = 0.0
    ended: Ended = None
    is_failed: bool = False
    why: str = ""
    counts: TrialCounts = TrialCounts()
    best: int = -1
    best_value: Began = None


class Experiments(msgspec.Struct, tag_field="type", tag="experiments"):
    """Kernel -> panel: the experiments of this kernel, in the order in which they began.

    Sent after `Open` if there are any, and when one of them has changed, at most four times a second. Each message
    replaces the one before.
    """

    v: int = VERSION
    experiments: list[ExperimentLabel] = []


class Parameter(msgspec.Struct, frozen=True):
    """A parameter: its path in the configuration, and its values in words; no words if all of them are numbers."""

    name: str
    words: list[str] = []


class TrialText(msgspec.Struct, frozen=True, array_like=True):
    """Why a trial is in its state, and what it has failed with; of trials that have one of them."""

    trial: Count
    why: str
    error: str


class Trials(msgspec.Struct, tag_field="type", tag="trials"):
    """Kernel -> panel: trials of the experiment that `WatchTrials` named. `n` is 0 for a message that begins anew, and
    one more than in the message before for all others.

    Each trial that has changed comes whole, with its curve, so that a message is applied by replacing what was there.
    Curves are of `metric`, thinned to `N_POINTS_MAX` points evenly over the results and fewer where there are many
    trials. `behind` trials wait for their turn. `values` and `settings` are the numbers of metrics and parameters times
    that of trials.
    """

    v: int = VERSION
    n: Count = 0
    path: str = ""
    metric: str = ""
    metrics: list[str] = []
    parameters: list[Parameter] = []
    texts: list[TrialText] = []
    told: list[str] = []
    behind: Count = 0
    changed: Count = 0
    values: Count = 0
    settings: Count = 0
    points: Count = 0


class TrialArrays(NamedTuple):
    """The arrays of one `Trials` message, in the order of `TRIAL_BUFFERS`."""

    trial: np.ndarray
    state: np.ndarray
    iteration: np.ndarray
    times: np.ndarray
    metrics: np.ndarray
    parameters: np.ndarray
    lengths: np.ndarray
    at: np.ndarray
    x: np.ndarray
    y: np.ndarray


class LearningLabel(msgspec.Struct, frozen=True):
    """A run of learning: its number, what learns what, and with which settings; its state and the reason for it;
    seconds of the session at which it began and ended; the metric that has a goal ("" if none has) and the value from
    which on it is reached; how many results there were.
    """

    run: Count
    title: str
    settings: str = ""
    state: RunState = "paused"
    why: str = ""
    began: float = 0.0
    ended: Ended = None
    goal: str = ""
    goal_value: Began = None
    results: Count = 0


class Learning(msgspec.Struct, tag_field="type", tag="learning"):
    """Kernel -> panel: the runs of learning of this kernel, in the order in which they began.

    Sent after `Open` if there are any, and when one of them has changed, at most four times a second. Each message
    replaces the one before.
    """

    v: int = VERSION
    runs: list[LearningLabel] = []


class LearningPoints(msgspec.Struct, tag_field="type", tag="learning_points"):
    """Kernel -> panel, while `WatchLearning` asks for it: points of one run. `n` is 0 for a message that begins anew,
    with whichever run, and one more than in the message before for all others.

    The points stand in place of those from the number `first` on; what a metric does not have before is NaN. `values`
    is the number of points times that of the metrics and one more.
    """

    v: int = VERSION
    n: Count = 0
    run: Count = 0
    metrics: list[str] = []
    first: Count = 0
    points: Count = 0
    values: Count = 0


class LearningArrays(NamedTuple):
    """The arrays of one `LearningPoints` message, in the order of `LEARNING_BUFFERS`."""

    values: np.ndarray


class Arrays(NamedTuple):
    """The arrays of one graph message, in the order of `BUFFERS`."""

    new_u32: np.ndarray
    new_submitted: np.ndarray
    update_row: np.ndarray
    update_state: np.ndarray
    update_worker: np.ndarray
    update_started: np.ndarray
    update_finished: np.ndarray
    update_size: np.ndarray
    edges: np.ndarray
    remote_row: np.ndarray
    remote_times: np.ndarray
    calls: np.ndarray


# Without numpy: `%load_ext` need not wait for it.
NOTHING = Arrays(*[cast("np.ndarray", memoryview(b""))] * len(BUFFERS))


def encode(header: GraphMessage, arrays: Arrays) -> tuple[dict[str, Any], list[memoryview]]:
    """A message as JSON-able data and binary buffers.

    The buffers share memory with `arrays`, which must not change afterwards: the socket may still be sending.
    """
    return msgspec.to_builtins(header), _buffers_of(BUFFERS, arrays)


def encode_trials(header: Trials, arrays: TrialArrays) -> tuple[dict[str, Any], list[memoryview]]:
    """Likewise of trials."""
    return msgspec.to_builtins(header), _buffers_of(TRIAL_BUFFERS, arrays)


def encode_learning(header: LearningPoints, arrays: LearningArrays) -> tuple[dict[str, Any], list[memoryview]]:
    """Likewise of points of runs of learning."""
    return msgspec.to_builtins(header), _buffers_of(LEARNING_BUFFERS, arrays)


def _buffers_of(specs: Sequence[Buffer], arrays: Sequence[np.ndarray]) -> list[memoryview]:
    import numpy as np

    return [
        np.ascontiguousarray(array, dtype=spec.dtype).data.cast("B") if array.nbytes else memoryview(b"")
        for spec, array in zip(specs, arrays, strict=True)
    ]


def decode(data: dict[str, Any], buffers: list[Any]) -> tuple[GraphMessage, Arrays]:
    """The inverse of `encode`, as a front end does it.

    Raises
    ------
    msgspec.ValidationError, ValueError
        When the data is no graph message, or a buffer has not the size that the header announces.
    """
    header = msgspec.convert(data, GraphMessage)
    return header, Arrays(*_arrays_of(BUFFERS, header, buffers))


def decode_trials(data: dict[str, Any], buffers: list[Any]) -> tuple[Trials, TrialArrays]:
    """The inverse of `encode_trials`; it raises what `decode` does."""
    header = msgspec.convert(data, Trials)
    return header, TrialArrays(*_arrays_of(TRIAL_BUFFERS, header, buffers))


def decode_learning(data: dict[str, Any], buffers: list[Any]) -> tuple[LearningPoints, LearningArrays]:
    """The inverse of `encode_learning`; it raises what `decode` does."""
    header = msgspec.convert(data, LearningPoints)
    return header, LearningArrays(*_arrays_of(LEARNING_BUFFERS, header, buffers))


def _arrays_of(specs: Sequence[Buffer], header: object, buffers: list[Any]) -> list[np.ndarray]:
    import numpy as np

    arrays = [np.frombuffer(buffer, dtype=spec.dtype) for spec, buffer in zip(specs, buffers, strict=True)]
    for spec, array in zip(specs, arrays, strict=True):
        factor, _, name = spec.items.rpartition(" * ")
        n = int(factor or 1) * getattr(header, name)
        if len(array) != n:
            raise ValueError(f"buffer {spec.name} has {len(array)} items, the header says {n}")
    return arrays


class Request(msgspec.Struct, tag_field="op", frozen=True):
    """Panel -> kernel, when the user does something: each one makes JupyterLab believe for a moment that the kernel is
    idle."""


class Hello(Request, tag="hello", frozen=True):
    """Is cellmesh there? Answered by `HelloReply` at once. `language` is the front end's, "" where it is English or
    unknown.
    """

    language: Annotated[str, msgspec.Meta(max_length=32)] = ""


class Open(Request, tag="open", frozen=True):
    """Send the graph to this comm from now on. Opening twice restarts with a snapshot."""

    comm_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class Close(Request, tag="close", frozen=True):
    """Stop sending. Unknown comms are no error: both sides may close."""

    comm_id: str


class Resync(Request, tag="resync", frozen=True):
    """A delta is missing: start again with a snapshot."""

    comm_id: str


class Card(Request, tag="card", frozen=True):
    """Everything about one row, with a preview of its value. Answered by `CardReply`."""

    row: Row


class Cancel(Request, tag="cancel", frozen=True):
    """Cancel a task; `force` kills its worker."""

    row: Row
    force: bool = False


class Retry(Request, tag="retry", frozen=True):
    """Submit a task that has failed or was cancelled again. Answered by `RetryReply`."""

    row: Row


class Fetch(Request, tag="fetch", frozen=True):
    """Bind the row's value to a variable of the notebook, by the name."""

    row: Row
    name: str


class Stack(Request, tag="stack", frozen=True):
    """Where is that running task now? Answered by `StackReply`."""

    row: Row


class Logs(Request, tag="logs", frozen=True):
    """What have tasks printed, from the line of this number on? Answered by `LogsReply`.

    Like `Memory`, asked at most once a second, while a view that shows it is open and the header's numbers have
    changed.
    """

    after: Count = 0


class Memory(Request, tag="memory", frozen=True):
    """What holds the store's memory, and who holds that? Answered by `MemoryReply`."""


class Save(Request, tag="save", frozen=True):
    """Write the session as it is known into a file, relative to the kernel's working folder. Answered by `SaveReply`.

    The name's ending says what: ``.cellmesh`` (a recording that the panel opens) or ``.html`` (one that a browser
    does).
    """

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class WatchTrials(Request, tag="watch_trials", frozen=True):
    """Send the trials of this experiment to this comm from now on, beginning anew, with curves of this metric ("": the
    experiment's); no trials any more if `path` is "". Asked when the view opens, and when a message is missing.
    """

    comm_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    path: str = ""
    metric: str = ""


class WatchLearning(Request, tag="watch_learning", frozen=True):
    """Send the points of the runs of learning to this comm from now on, beginning anew; or no more. Asked when the view
    opens and closes, and when a message is missing.
    """

    comm_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    wanted: bool = True


class Steer(Request, tag="steer", frozen=True):
    """Stop, pause or resume a trial of an experiment, or all of them (-1)."""

    path: str
    what: Steering
    trial: int = -1


class TrialTask(Request, tag="trial_task", frozen=True):
    """Which row is the task of a trial's latest attempt? Answered by `TrialTaskReply`."""

    path: str
    trial: Count


AnyRequest = (
    Hello
    | Open
    | Close
    | Resync
    | Card
    | Cancel
    | Retry
    | Fetch
    | Stack
    | Logs
    | Memory
    | Save
    | WatchTrials
    | WatchLearning
    | Steer
    | TrialTask
)


class Ok(msgspec.Struct, tag_field="status", tag="ok"):
    """Done."""


class HelloReply(Ok, tag="ok"):
    """`active` tells whether a session runs, `session` which one (``""`` if none)."""

    version: str
    active: bool
    session: str
    protocol: int = VERSION


class CardReply(Ok, tag="ok"):
    """`html` has no scripts and everything foreign in it is escaped; `text` is for screen readers and copying."""

    html: str
    text: str
    data: dict[str, Any]


class CancelReply(Ok, tag="ok"):
    """What was found."""

    outcome: Outcome


class RetryReply(Ok, tag="ok"):
    """`bound`: the variables of the notebook that hold the new futures, in words."""

    bound: list[str]


class StackReply(Ok, tag="ok"):
    """The Python stack of the worker's thread, innermost call last."""

    text: str


class LogLine(msgspec.Struct, frozen=True, array_like=True):
    """One line: seconds of the session, the row that printed it (-1: none that is known), stream, process, text."""

    at: float
    row: int
    stream: Stream
    pid: int
    text: str


class LogsReply(Ok, tag="ok"):
    """`first` is the number of the first line here: larger than asked for when older ones have been forgotten. There
    are more if `lines` in the header is larger than the number of the last.
    """

    first: Count
    lines: list[LogLine]


class ObjectFacts(msgspec.Struct, frozen=True, array_like=True):
    """One value of the store: its row (-1 if it has none), bytes, place, state, who made it, the processes and the
    notebook's variables that hold it, in words, and how many tasks and values use it.
    """

    row: int
    size: Count
    place: Place
    state: ObjectState
    made_by: str
    holders: list[str]
    variables: list[str]
    users: Count


class MemoryReply(Ok, tag="ok"):
    """The largest `objects`, of `n_objects`; `used` of `capacity` bytes of memory are in use, and `disk` on disk."""

    objects: list[ObjectFacts]
    n_objects: Count
    used: Count
    capacity: Count
    peak: Count
    disk: Count
    n_on_disk: Count


class SaveReply(Ok, tag="ok"):
    """The file as it was asked for, and its bytes."""

    path: str
    size: Count


class TrialTaskReply(Ok, tag="ok"):
    """The row, -1 if it has none (yet, or not in this session)."""

    row: int


class Refusal(msgspec.Struct, tag_field="status", tag="error"):
    """It could not be done: the error's type, and a sentence for people."""

    ename: str
    evalue: str


REPLIES = (
    Ok,
    HelloReply,
    CardReply,
    CancelReply,
    RetryReply,
    StackReply,
    LogsReply,
    MemoryReply,
    SaveReply,
    TrialTaskReply,
    Refusal,
)
EXPERIMENT_MESSAGES = (Experiments, Trials)
LEARNING_MESSAGES = (Learning, LearningPoints)


def parse_request(content: dict[str, Any]) -> AnyRequest:
    """The request in a message's content.

    Raises
    ------
    msgspec.ValidationError
        When it is none of `AnyRequest`; the text says what is wrong with it.
    """
    return msgspec.convert(content, AnyRequest)


def schema() -> dict[str, Any]:
    """The JSON schema of every message, with the buffers and enumerations beside it."""
    from ..observe.recording import FORMAT, LEARNING_TABLES, OLDEST_VERSION, TABLES, TRIAL_TABLES
    from ..observe.recording import VERSION as RECORDING_VERSION

    graph, requests = get_args(GraphMessage), get_args(AnyRequest)
    _, definitions = msgspec.json.schema_components(
        [*graph, *EXPERIMENT_MESSAGES, *LEARNING_MESSAGES, *requests, *REPLIES], ref_template="#/$defs/{name}"
    )
    for name, definition in definitions.items():
        definition["description"] = cleandoc(definition["description"])
        if globals()[name] not in requests:
            _as_written(globals()[name], definition)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cellmesh panel protocol",
        "description": "Generated by `python -m cellmesh.kernel_ext.panel_messages`; do not edit.",
        "version": VERSION,
        "targets": {"comm": COMM_TARGET, "announce": ANNOUNCE_TARGET, "request": REQUEST_TYPE, "reply": REPLY_TYPE},
        "buffers": [buffer._asdict() for buffer in BUFFERS],
        "trial_buffers": [buffer._asdict() for buffer in TRIAL_BUFFERS],
        "learning_buffers": [buffer._asdict() for buffer in LEARNING_BUFFERS],
        "trial_states": {state: number for number, state in enumerate(TRIAL_STATES)},
        "states": {state.name.lower(): int(state) for state in State},
        "kinds": {kind.name.lower(): int(kind) for kind in Kind},
        "no_worker": NO_WORKER,
        "first_remote_worker": FIRST_REMOTE_WORKER,
        "unknown": UNKNOWN,
        "put_names": list(PUT_NAMES),
        "n_samples_max": N_SAMPLES_MAX,
        "n_lines_max": N_LINES_MAX,
        "n_collectives_max": N_COLLECTIVES_MAX,
        "recording": {
            "format": FORMAT,
            "version": RECORDING_VERSION,
            "oldest_version": OLDEST_VERSION,
            "tables": {table: list(columns) for table, columns in TABLES.items()},
            "trial_tables": {table: list(columns) for table, columns in TRIAL_TABLES.items()},
            "learning_tables": {table: list(columns) for table, columns in LEARNING_TABLES.items()},
        },
        "graph": [message.__name__ for message in graph],
        "requests": [message.__name__ for message in requests],
        "replies": [message.__name__ for message in REPLIES],
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def _as_written(struct: type[msgspec.Struct], definition: dict[str, Any]) -> None:
    """Make what a struct's decoder accepts into what the kernel writes: every field, in lists with its name."""
    if definition["type"] == "array":
        for name, item in zip(struct.__struct_fields__, definition["prefixItems"], strict=True):
            item["title"] = name
        definition["minItems"] = len(definition["prefixItems"])
    else:
        definition["required"] = [name for name, field in definition["properties"].items() if "x-later" not in field]


def schema_text() -> str:
    """The schema file's content."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
