"""Every message between the kernel and the panel, and nothing else defines the format.

Kernel to front end: a *snapshot*, then *deltas* with consecutive numbers, as ``comm_msg`` on iopub: a small JSON header
(`Snapshot`, `Delta`) and twelve typed arrays as binary buffers (`BUFFERS`), because a hundred thousand rows of JSON would
cost a second of parsing where typed arrays are used as they arrive. A gap in the numbers means that something was lost
on the way; the panel then asks for a new snapshot (`Resync`).

Front end to kernel: a request (`Request`, told apart by ``op``) on the *control* channel, answered by one reply. The
control channel answers while a cell runs; shell messages would wait for it.

The version stands in each header and in the answer to `Hello`; a panel that knows another version says so instead of
misreading. The JSON schema of all this is exported with ``python -m cellmesh.kernel_ext.panel_messages`` and lies in
`labextension/src/protocol.schema.json`; a test fails when they differ.
"""
from __future__ import annotations

import json
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast, get_args

import msgspec

if TYPE_CHECKING:
    import numpy as np

VERSION = 2
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


class State(IntEnum):
    """A row's state, as in the ``update_state`` column."""

    WAITING = 0  # for tasks it depends on
    READY = 1  # queued: nothing is missing but a worker
    RUNNING = 2
    FINISHED = 3
    FAILED = 4
    CANCELLED = 5
    RETRYING = 6  # an attempt was lost, the next one is queued


class Kind(IntEnum):
    """What a row is, as in the ``new_u32`` columns."""

    TASK = 0
    ACTOR_CREATION = 1
    ACTOR_CALL = 2
    OBJECT = 3  # made by put


NO_WORKER = 255


class Buffer(NamedTuple):
    """One binary buffer: its name, numpy dtype and number of items, the latter in terms of the header's fields."""

    name: str
    dtype: str
    items: str
    meaning: str


BUFFERS = (
    Buffer("new_u32", "<u4", "5 * new", "columns of the new rows, column after column: function, cell,"
           " actor + 1 (0 none), parent row + 1 (0 none), kind"),
    Buffer("new_submitted", "<f8", "new", "when each new row was submitted; NaN unknown"),
    Buffer("update_row", "<u4", "updates", "rows that changed, each at most once in a message"),
    Buffer("update_state", "u1", "updates", "state"),
    Buffer("update_worker", "<u2", "updates", "worker, 255 none; from 256 on one of another machine"),
    Buffer("update_started", "<f8", "updates", "start of the latest attempt; NaN none; elsewhere, as long as nobody knows: when it was sent"),
    Buffer("update_finished", "<f8", "updates", "end; NaN none; elsewhere: when its result was there"),
    Buffer("update_size", "<f8", "updates", "size of the result in bytes; NaN unknown"),
    Buffer("edges", "<u4", "2 * edges", "pairs (source row, target row): the target depends on the source"),
    Buffer("away_row", "<u4", "away", "those of the rows that changed whose latest attempt ran, or is to run, on another machine"),
    Buffer("away_times", "<f8", "2 * away", "when each was sent, then when each ended there; NaN unknown"),
    Buffer("calls", "<f8", "2 * calls", "pairs (row, time): of rows among the updates whose code or arguments took long to load,"
           " when the user's code began; of all others it is when they started"),
)
BYTES_PER_NEW = 5 * 4 + 8
BYTES_PER_UPDATE = 4 + 1 + 2 + 8 + 8 + 8
BYTES_PER_EDGE = 8
BYTES_PER_AWAY = 4 + 2 * 8
BYTES_PER_CALL = 16

Count = Annotated[int, msgspec.Meta(ge=0)]
Row = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class CellLabel(msgspec.Struct, frozen=True):
    """A run of a cell: as the notebook shows it (``"In [3]"``) and the notebook's id of the cell (``""`` if none)."""

    label: str
    id: str


class ActorLabel(msgspec.Struct, frozen=True):
    """An actor: its name (``""`` if none), class and state (pending, alive, restarting, dead).

    `pid` is that of its latest process, 0 if there was none; `crashed`: it died because that ended unasked.
    """

    name: str
    cls: str
    state: str
    pid: int = 0
    crashed: bool = False


class WorkerLabel(msgspec.Struct, frozen=True):
    """A worker process and what it does: idle, busy, blocked (in get or wait), actor, dead; seconds of the session at
    which it began and ended, None while it has not.

    `node`: its machine. Of one that is not 0, this one, the state is "elsewhere"; `pid` is one of that machine, 0 for tasks that have
    been sent there and have not begun, as far as is known.
    """

    pid: int
    state: str
    since: float = 0.0
    ended: float | None = None
    node: Count = 0


class NodeLabel(msgspec.Struct, frozen=True):
    """A machine: its name, the CPUs and GPUs that tasks may use together, bytes of memory, room for values.

    Of other machines than this one: its number `id` in the cluster; `state` alive, draining or dead, why, and the second of the
    session in which it was seen first, and last.
    """

    name: str
    cpus: float = 0.0
    gpus: float = 0.0
    memory: Count = 0
    store: Count = 0
    id: str = ""
    state: str = "alive"
    reason: str = ""
    since: float = 0.0
    ended: float | None = None


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """What a machine was doing at one time.

    `load`: share of its processors' time that was used, by anybody, since the sample before; `cpus`, `gpus`: what tasks
    had taken; `memory`, `store`, `disk`: bytes in use by anybody, by values, and by values that were moved to disk; `queued`: tasks
    that waited for room there.
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
    """The bytes of a row's value (-1: of one without a row) on their way between this machine and another one: whether they come here, how
    many, since when; when that was over, None while it is not, and whether they arrived.
    """

    row: int
    node: Count
    comes: bool
    size: Count
    began: float
    ended: float | None = None
    complete: bool = False


class Loss(msgspec.Struct, frozen=True, array_like=True):
    """An attempt at a task that was lost with its machine: the row, the worker there, when it was sent, began there (None: nobody knows),
    and was given up.
    """

    row: int
    worker: Count
    sent: float
    began: float | None
    lost: float


class Counts(msgspec.Struct, frozen=True):
    """Tasks by state; retrying ones are counted as ready. Puts are not tasks."""

    waiting: Count = 0
    ready: Count = 0
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
    for their turn. `functions`, `cells`, `actors`, `workers` and `nodes` hold only entries that are new or have changed,
    `samples`, `transfers` (by number) and `losses` those that the front end has not had. `lines` have been printed by tasks; `Logs` asks for them.
    """

    v: int = VERSION
    n: Count = 0
    session: str = ""
    now: float = 0.0
    tasks: Count = 0
    aggregated: Count = 0
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
    lines: Count = 0
    counts: Counts = Counts()
    resources: Resources = Resources()
    store: Store = Store()
    new: Count = 0
    updates: Count = 0
    edges: Count = 0
    away: Count = 0
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
    away_row: np.ndarray
    away_times: np.ndarray
    calls: np.ndarray


# Not of numpy, which `%load_ext` need not wait for.
NOTHING = Arrays(*[cast("np.ndarray", memoryview(b""))] * len(BUFFERS))


def encode(header: GraphMessage, arrays: Arrays) -> tuple[dict[str, Any], list[memoryview]]:
    """A message as JSON-able data and binary buffers.

    The buffers share memory with `arrays`, which must not change afterwards: the socket may still be sending.
    """
    import numpy as np
    buffers = [memoryview(np.ascontiguousarray(array, dtype=spec.dtype)).cast("B") if array.nbytes else memoryview(b"")
               for spec, array in zip(BUFFERS, arrays, strict=True)]
    return msgspec.to_builtins(header), buffers


def decode(data: dict[str, Any], buffers: list[Any]) -> tuple[GraphMessage, Arrays]:
    """The inverse of `encode`, as a front end does it.

    Raises
    ------
    msgspec.ValidationError, ValueError
        When the data is no graph message, or a buffer has not the size that the header announces.
    """
    import numpy as np
    header = msgspec.convert(data, GraphMessage)
    items = {"new": header.new, "updates": header.updates, "edges": header.edges, "away": header.away,
             "5 * new": 5 * header.new, "2 * edges": 2 * header.edges, "2 * away": 2 * header.away,
             "2 * calls": 2 * header.calls}
    arrays = [np.frombuffer(buffer, dtype=spec.dtype) for spec, buffer in zip(BUFFERS, buffers, strict=True)]
    for spec, array in zip(BUFFERS, arrays, strict=True):
        if len(array) != items[spec.items]:
            raise ValueError(f"buffer {spec.name} has {len(array)} items, the header says {items[spec.items]}")
    return header, Arrays(*arrays)


class Request(msgspec.Struct, tag_field="op", frozen=True):
    """Panel -> kernel, when the user does something: each one makes JupyterLab believe for a moment that the kernel is
    idle."""


class Hello(Request, tag="hello"):
    """Is cellmesh there? Answered by `HelloReply` at once. `language` is the front end's, "" where it is English or unknown."""

    language: Annotated[str, msgspec.Meta(max_length=32)] = ""


class Open(Request, tag="open"):
    """Send the graph to this comm from now on. Opening twice restarts with a snapshot."""

    comm_id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class Close(Request, tag="close"):
    """Stop sending. Unknown comms are no error: both sides may close."""

    comm_id: str


class Resync(Request, tag="resync"):
    """A delta is missing: start again with a snapshot."""

    comm_id: str


class Card(Request, tag="card"):
    """Everything about one row, with a preview of its value. Answered by `CardReply`."""

    row: Row


class Cancel(Request, tag="cancel"):
    """Cancel a task; `force` kills its worker."""

    row: Row
    force: bool = False


class Retry(Request, tag="retry"):
    """Submit a task that has failed or was cancelled again. Answered by `RetryReply`."""

    row: Row


class Fetch(Request, tag="fetch"):
    """Bind the row's value to a variable of the notebook, by the name."""

    row: Row
    name: str


class Stack(Request, tag="stack"):
    """Where is that running task now? Answered by `StackReply`."""

    row: Row


class Logs(Request, tag="logs"):
    """What have tasks printed, from the line of this number on? Answered by `LogsReply`.

    Like `Memory`, asked at most once a second, while a view that shows it is open and the header's numbers have changed.
    """

    after: Count = 0


class Memory(Request, tag="memory"):
    """What holds the store's memory, and who holds that? Answered by `MemoryReply`."""


class Save(Request, tag="save"):
    """Write the session as it is known into a file, relative to the kernel's working folder. Answered by `SaveReply`.

    The name's ending says what: ``.cellmesh`` (a recording that the panel opens) or ``.html`` (one that a browser does).
    """

    path: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


AnyRequest = Hello | Open | Close | Resync | Card | Cancel | Retry | Fetch | Stack | Logs | Memory | Save


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
    """What was found: pending, running or finished."""

    outcome: str


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
    stream: str
    pid: int
    text: str


class LogsReply(Ok, tag="ok"):
    """`first` is the number of the first line here: larger than asked for when older ones have been forgotten. There are
    more if `lines` in the header is larger than the number of the last.
    """

    first: Count
    lines: list[LogLine]


class ObjectFacts(msgspec.Struct, frozen=True, array_like=True):
    """One value of the store: its row (-1 if it has none), bytes, place (memory, disk, slot), state, who made it, the
    processes and the notebook's variables that hold it, in words, and how many tasks and values use it.
    """

    row: int
    size: Count
    place: str
    state: str
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


class Refusal(msgspec.Struct, tag_field="status", tag="error"):
    """It could not be done: the error's type, and a sentence for people."""

    ename: str
    evalue: str


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
    replies = (Ok, HelloReply, CardReply, CancelReply, RetryReply, StackReply, LogsReply, MemoryReply, SaveReply, Refusal)
    _, definitions = msgspec.json.schema_components(
        [Snapshot, Delta, *get_args(AnyRequest), *replies],
        ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "cellmesh panel protocol",
        "description": "Generated by `python -m cellmesh.kernel_ext.panel_messages`; do not edit.",
        "version": VERSION,
        "targets": {"comm": COMM_TARGET, "announce": ANNOUNCE_TARGET, "request": REQUEST_TYPE, "reply": REPLY_TYPE},
        "buffers": [buffer._asdict() for buffer in BUFFERS],
        "states": {state.name.lower(): int(state) for state in State},
        "kinds": {kind.name.lower(): int(kind) for kind in Kind},
        "no_worker": NO_WORKER,
        "$defs": {name: definitions[name] for name in sorted(definitions)},
    }


def schema_text() -> str:
    """The schema file's content."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(schema_text(), end="")
