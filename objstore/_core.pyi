"""The extension module: this process's attachment to a node's shared segment. The reasons stand in binding/.

tests/project/test_stubs.py compares this file with the C tables: names, parameters, defaults, fields of records.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from types import FrameType
from typing import Any, Generic, Literal, NamedTuple, overload

import numpy as np
from typing_extensions import TypeVar

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True, default=Any)
ReadableBuffer = bytes | bytearray | memoryview
Shape = bytes
"""What tasks need, and where they run: of `Client.resource_class`. Good for as long as the session lives."""
Amounts = dict[str, float]
"""Resources by name, as people count them."""
Units = dict[str, int]
"""Resources by name, in units: RESOURCE_UNIT of them are one."""

# ---- constants: formats/constants.c
ROLE_SCHEDULER: int
ROLE_DRIVER: int
ROLE_WORKER: int
ROLE_REMOTE_NODE: int
MAX_CLIENTS: int
MAX_SLOTS: int
ROUTE_ANY: int
ROUTE_HERE: int
ROUTE_ASKS: int
ROUTE_WAITS: int
ROUTE_UNDIRECTED: int
ROUTE_DIRECTED: int
ROUTE_NEVER: int
STRATEGY_SIZE: int
RESOURCE_UNIT: int
MAX_KINDS: int
MAX_CLASSES: int
MAX_POOLS: int
BUNDLE_HERE: int
BUNDLE_NOWHERE: int
BUNDLE_COMING: int
OBJECT_PENDING: int
OBJECT_READY: int
OBJECT_ERROR: int
OBJECT_FAILED: int
PLACE_HERE: int
PLACE_REMOTE: int
PLACE_LOST: int
ITEM_EXISTS: int
ITEM_UNWANTED: int
STREAM_FORSAKEN: int
FAILURE_WORKER_CRASHED: int
FAILURE_CANCELLED: int
FAILURE_ACTOR_DIED: int
FAILURE_ACTOR_UNAVAILABLE: int
FAILURE_OUT_OF_MEMORY: int
FAILURE_OBJECT_LOST: int
FAILURE_STORE_FULL: int
FAILURE_UNPLACED: int
FAILURE_ACTOR_UNPLACED: int
FAILURE_NODE_DIED: int
FAILURE_CANNOT_LEAVE: int
FAILURE_UNROUTED: int
FAILURE_SHARED_STAYS: int
SYNC_BARRIER: int
SYNC_COUNTER: int
SYNC_CONDITION: int
SYNC_MOST_MEMBERS: int
SYNC_DONE: int
SYNC_PENDING: int
SYNC_BROKEN: int
SYNC_RESET: int
SYNC_OWNED: int
SYNC_NOT_OWNED: int
TASK_FLAG_RETRY_EXCEPTIONS: int
TASK_FLAG_ENV: int
TASK_FLAG_STREAM: int
TASK_FLAG_STAYS: int
PROGRESS_GONE: int
PROGRESS_WAITS: int
PROGRESS_QUEUED: int
PROGRESS_RUNS: int
PROGRESS_SLEEPS: int
ACTOR_PENDING: int
ACTOR_ALIVE: int
ACTOR_RESTARTING: int
ACTOR_DEAD: int
ACTOR_FLAG_ORDERED: int
MAX_GROUPS: int
DIED_OF_MEMORY: int
DIED_WITH_NODE: int
ENDED_BY_KILL: int
ENDED_BY_ITSELF: int
ENDED_WITH_HANDLES: int
NOT_BEGUN: int
EVENT_SUBMITTED: int
EVENT_PARENT: int
EVENT_DEPENDS: int
EVENT_STARTED: int
EVENT_FINISHED: int
EVENT_RETRIED: int
EVENT_PUT: int
EVENT_FREED: int
EVENT_ACTOR_CREATED: int
EVENT_ACTOR_STATE: int
EVENT_WORKER_STARTED: int
EVENT_WORKER_DIED: int
EVENT_BLOCKED: int
EVENT_UNBLOCKED: int
EVENT_RAN: int
EVENT_TRANSFER: int
EVENT_TRANSFERRED: int
EVENT_CALLED: int
EVENT_RUNS_ON: int
EVENT_BY_PUT: int
EVENT_AS_ARGUMENT: int
EVENT_AS_ITEM: int
EVENT_OK: int
EVENT_ERROR: int
EVENT_CANCELLED: int
EVENT_CRASHED: int
PUT_BIT: int
EVENT_DTYPE: list[tuple[str, str]]
"""numpy dtype of one event record, 32 bytes; core/memory/event.h says what the fields are, by kind."""
EVENT_FORMAT: str
"""The same for the module `struct`."""
TASK_STATES: tuple[str, ...]
ACTOR_STATES: tuple[str, ...]
"""By state - ACTOR_PENDING, which is what events tell."""
OBJECT_STATES: tuple[str, ...]
"""By state - OBJECT_PENDING."""
PLACEMENT_MODES: tuple[Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"], ...]
FAILURES: tuple[str, ...]
"""By FAILURE_*: what `Failure.code` says."""

# ---- records: formats/records.c
class ActorDeath(NamedTuple):
    """How an actor ended."""

    how: str  # unplaced, constructor, exited, killed, ended or died
    detail: int  # exit code or signal

class ActorNews(NamedTuple):
    """What an actor that lives on another machine wants of the agent."""

    actor: int  # its index
    has_calls: bool  # calls wait for it
    has_ended: bool  # no handle is left
    is_killed: bool  # it is to end
    for_good: bool  # without a restart

class ActorPlace(NamedTuple):
    """What identifies an actor without keeping it alive."""

    slot: int  # in the table
    generation: int  # how often that place was used

class ActorRecord(NamedTuple):
    """An actor, as the agent tells another machine of it."""

    actor: int  # its index
    state: int  # one of ACTOR_STATES
    death_detail: int  # how its process ended
    for_good: bool  # whether it was ended on purpose
    spec: ActorSpec  # an ActorSpec
    checkpoint: int  # slot of what it has saved, -1: nothing

class ActorSpec(NamedTuple):
    """How an actor takes its calls."""

    flags: int  # ACTOR_FLAG_ORDERED or 0
    max_concurrency: int  # calls that run at once
    group_limits: tuple[int, ...]  # the same for each concurrency group

class Bundle(NamedTuple):
    """A bundle of a placement group, as the agent sees it."""

    amounts: Units  # {name: units}
    place: int  # BUNDLE_NOWHERE, BUNDLE_COMING, 0: here, n: the client n - 1

class BundleState(NamedTuple):
    """A bundle of a placement group, for listings."""

    total: Amounts  # {name: amount}
    available: Amounts  # {name: amount}
    node: int | None  # last 32 bits of its number, 0: here, None: not reserved

class Cancelled(NamedTuple):
    """What a cancellation has met."""

    outcome: str  # finished, pending, running, put or actor
    pid: int  # of the process that was signalled, else 0
    task: int  # number of the task or put

class Capacity(NamedTuple):
    """What this node has to give, in units."""

    free: Units  # {name: units}
    lent: Units  # {name: units} that other machines use, or tasks that the agent has placed here
    kept: Units  # {name: units} of actors and bundles
    n_running: int  # tasks that run and actors that live
    n_lent: int  # how many of them count as lent

class ClassTerms(NamedTuple):
    """What a resource class says besides its demand."""

    kept: Units  # {name: units} that an actor keeps once constructed
    env: int  # number of its environment
    priority: int  # higher begins first

class Clock(NamedTuple):
    """Turns ticks of events into Unix time."""

    ticks: int  # at the segment's creation
    unix_ns: int  # at the same moment
    ns_per_tick: float  # the rate since then

class CreatedActor(NamedTuple):
    """A new actor."""

    ref: Ref[Any]  # its handle
    constructor: int  # number of the task that constructs it

class Events(NamedTuple):
    """A piece of the event ring."""

    records: bytes  # bytes, of EVENT_DTYPE
    cursor: int  # where to read on
    lost: int  # records overwritten before they were read

class EventsRead(NamedTuple):
    """What was read into a buffer."""

    n: int  # records
    cursor: int  # where to read on
    lost: int  # records overwritten before they were read

class Expired(NamedTuple):
    """Tasks whose time was up."""

    at: float | None  # when to look again, monotonic s; None
    stopped: list[StoppedTask]  # [StoppedTask]

class Failure(NamedTuple):
    """Why the system has failed an object."""

    kind: str  # "system"
    code: str  # a failure's name
    detail: int  # what the code says it is
    task: int  # number of the task

class FunctionPlace(NamedTuple):
    """Where a function object lies."""

    slot: int  # -1: there is none
    generation: int  # the lower 16 bits

class Group(NamedTuple):
    """A placement group that concerns the agent."""

    number: int  # in this session
    mode: int  # how its bundles are spread
    about: int  # slot of the object that describes it
    bundles: list[Bundle]  # [Bundle]

class Holder(NamedTuple):
    """Who has what a task waits for."""

    name: str  # of its function
    pid: int  # of its process
    amounts: Amounts  # {name: amount}

class IdleMemory(NamedTuple):
    """Unused memory of the store."""

    idle_bytes: int  # in large free chunks
    needed_bytes: int  # by how much the use was higher since the last call

class ObjectRecord(NamedTuple):
    """An object, as the agent tells another machine of it."""

    state: int  # one of OBJECT_*
    size: int  # in bytes
    refs: list[int]  # slots of the objects in it
    failure: int  # a FAILURE_* code or 0
    failure_detail: int  # what the code says it is
    place: int  # PLACE_HERE, PLACE_REMOTE, PLACE_LOST
    is_actor: bool  # whether it stands for an actor

class PlacedTask(NamedTuple):
    """A task that was told to begin on this node."""

    task: int  # its slot
    number: int  # its own

class ResourceClass(NamedTuple):
    """What tasks of equal needs share."""

    shape: Shape  # bytes, for submitters
    fits: bool  # whether this node could ever run one

class Resources(NamedTuple):
    """The resources of this node."""

    total: Amounts  # {name: amount}
    available: Amounts  # {name: amount}

class RetriedTask(NamedTuple):
    """A task that runs again after its process died."""

    number: int  # 0: there is none
    n_before: int  # attempts so far
    most: int  # attempts that it may have, -1: any number

class Run(NamedTuple):
    """A task that runs on this machine."""

    number: int  # the task's
    pid: int  # its process
    since_s: float  # for how long

class RunTimes(NamedTuple):
    """When a task ran, relative to now."""

    pid: int  # 0: it is not known
    waited_s: float  # before it began
    ran_s: float  # how long
    ended_s: float  # how long ago

class StoppedOwner(NamedTuple):
    """The process that holds the segment's lock and is stopped."""

    pid: int  # 0: there is none
    is_driver: bool  # whether it is one
    n_killed: int  # such processes that were killed
    killed_pid: int  # the last of them
    grace_s: float  # how long one may be stopped

class StoppedTask(NamedTuple):
    """A task that was stopped because its time was up."""

    pid: int  # its process
    number: int  # the task's
    killed: bool  # whether its process was killed, else interrupted

class SubmittedTask(NamedTuple):
    """A task of another machine that was submitted here."""

    task: int  # its slot
    number: int  # its own
    results: list[int]  # slots
    stream: int  # slot of its stream, -1: it has none

class Surplus(NamedTuple):
    """Waiting tasks of one resource class."""

    resource_class: int  # its number
    n_ready: int  # tasks that may run on another machine
    n_startable: int  # of them could start here now
    demand: Units  # {name: units}
    n_staying: int  # tasks that cannot travel
    asks: bool  # whether they wait to be told where
    strategy: str  # as text
    in_group: bool  # whether they belong to a placement group
    fits: bool  # whether one would fit in here if nothing else ran
    near: dict[int, int]  # {remote node or -1 for here: bytes of their arguments}

class TaskBundle(NamedTuple):
    """The bundle in which a task runs."""

    group: int  # number of the placement group
    bundle: int  # index in it
    captures: bool  # whether tasks that it submits run in the group, too

class TaskRecord(NamedTuple):
    """What it takes to run a task on another machine."""

    task: int  # its slot
    number: int  # its own
    resource_class: int  # its number
    function: int  # slot
    arguments: bytes  # bytes
    refs: list[int]  # slots of the objects in the arguments
    n_dependencies: int  # how many of refs it waits for
    n_returns: int  # results
    max_retries: int  # -1: any number
    flags: int  # TASK_FLAG_*
    attempt: int  # from 0
    origin: int  # number of the cell
    parent: int  # number of the task it came from
    actor: int  # index, -1: none
    actor_object: int  # slot of the actor's object, -1: none
    group: int  # concurrency group
    times: TaskTimes | None  # TaskTimes or None

class TaskTimes(NamedTuple):
    """How long a task may run, and waits before it runs again."""

    timeout_ms: int  # 0: any time
    delay_ms: int  # before the second attempt
    most_delay_ms: int  # before any attempt
    retries_timeout: bool  # whether an attempt that ran too long is followed by another

# ---- functions of the module
def create_segment(
    size: int, n_objects: int = 1 << 20, n_tasks: int = 1 << 20, n_actors: int = 4096, n_events: int = 1 << 19
) -> int:
    """A sealed memfd that holds an empty segment with room for `size` bytes of values; returns its descriptor.

    Sparse: memory is committed as it is used, and goes back to the system with the last process that maps it.
    n_events must be a power of two.
    """

def make_get(function: Callable[..., T], doc: str, /) -> Callable[..., T]:
    """The public `get`: in C for refs of an open session; the function has all else. `doc`: signature, "--", text."""

def shared_place(array: Any, /) -> tuple[Ref[Any], int] | None:
    """The ref and the offset of an array in shared memory, as pickle needs them; None: it lies elsewhere."""

def shared_view(
    ref: Ref[Any], offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any, writable: bool, /
) -> Any:
    """The array over shared memory again."""

def barrier_wait(ref: Ref[Any], timeout: float | None, /) -> int:
    """Joins, and waits: a SYNC_*, SYNC_PENDING when the time is up."""

def barrier_arrive(ref: Ref[Any], /) -> int:
    """Joins, and does not wait: a SYNC_*, SYNC_PENDING if others are still to come."""

def barrier_arrived(ref: Ref[Any], /) -> int:
    """How many wait there."""

def counter_add(ref: Ref[Any], n: int, /) -> int:
    """The new value."""

def counter_set(ref: Ref[Any], value: int, /) -> int:
    """The value that it had."""

def counter_get(ref: Ref[Any], /) -> int:
    """The value."""

def condition_lock(ref: Ref[Any], timeout: float | None, /) -> int:
    """A SYNC_*, SYNC_PENDING when the time is up."""

def condition_unlock(ref: Ref[Any], /) -> int:
    """A SYNC_*."""

def condition_wait(ref: Ref[Any], timeout: float | None, /) -> int:
    """A SYNC_*: notified (SYNC_DONE) or, when the time is up, SYNC_PENDING."""

def condition_notify(ref: Ref[Any], n: int, /) -> int:
    """A SYNC_*."""

def sync_broken(ref: Ref[Any], /) -> tuple[bool, int]:
    """Whether it is broken; and the pid of the member that died last, or minus that of who aborted it."""

def sync_abort(ref: Ref[Any], /) -> None:
    """Breaks a barrier."""

def sync_reset(ref: Ref[Any], /) -> None:
    """Makes it as new."""

def private_pages() -> list[tuple[int, int, int]]:
    """This process's private pages over objects: where they lie, how many bytes, and where they lie in the segment."""

def refs_are_plain(flag: bool, /) -> bool:
    """Whether refs are true and unequal to any value, as Ray's, or refuse to say; returns what was so before."""

def set_ref_methods(functions: dict[str, Callable[..., Any]], /) -> None:
    """Functions by name that refs have as methods beside their own."""

def set_process_name(name: str, /) -> None:
    """The name in ps and top; its first 15 bytes."""

def set_death_signal(signal: int, /) -> None:
    """Have the kernel send it to this process when the thread that forked it ends."""

def become_subreaper() -> None:
    """Become the parent of all descendants whose parent ends."""

def note_and_call(function: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Calls it; at the end of the task its process is restored."""

def repeat_interrupts() -> None:
    """From now on SIGINT comes again, every 20 ms, until its handler has called a client's cancelled()."""

def deferring(handler: Callable[[int, FrameType | None], None], /) -> Callable[[int, FrameType | None], None]:
    """The handler of a signal, for one that raises. In Python 3.14 it does so in no `with` statement that has entered
    and would not leave.
    """

def line_buffer_stdout() -> None:
    """Have C's stdout flush at newlines, whatever it leads to."""

def keep_heap() -> bool:
    """Have freed memory of C's heap, 64 MB of it, stay for what is allocated next; False: it cannot."""

def _ref_at(number: int, /) -> Ref[Any]: ...

class StoreError(Exception):
    """The store cannot do what was asked; `code` is full, disk, lost, limit, closed, forked, corrupt, invalid or
    system.
    """

    code: str

class ObjectRef(Generic[T_co]):
    """The handle of a value that exists now or later; public as `cellmesh.ObjectRef`."""

    _slot: int
    _generation: int
    creator: int
    client: Client
    def result(self, timeout: float | None = None) -> T_co: ...
    def exception(self, timeout: float | None = None) -> BaseException | None: ...
    def done(self) -> bool: ...
    def running(self) -> bool: ...
    def cancel(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def add_done_callback(self, fn: Callable[[ObjectRef[T_co]], object], /) -> None: ...
    def remove_done_callback(self, fn: Callable[[ObjectRef[T_co]], object], /) -> int: ...
    def hex(self) -> str: ...
    def future(self) -> Future[T_co]: ...
    def __await__(self) -> Generator[Any, None, T_co]: ...

Ref = ObjectRef  # by this name it is found in the module; the other one is its own

class Buffer:
    """Bytes in the segment, or in private pages over it, under an array; keeps the object they belong to."""

    owner: object
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Submitter:
    """Submits one task for each call: a Ref, a list of them (num_returns > 1), or None (num_returns = 0)."""
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Watch:
    """What exported code has taken along, and whether it is still that. `items`: (where, name, what)."""

    n_calls: int
    look_at_call: int
    look_at_ns: int
    def __init__(self, items: list[tuple[Any, ...]]) -> None: ...
    def changed(self) -> bool: ...

class Client:
    """Attaches this process to the segment behind `fd`.

    Parameters
    ----------
    fd : int
        Descriptor of the segment; may be closed afterwards.
    role : int
        ROLE_SCHEDULER, ROLE_DRIVER, ROLE_WORKER or ROLE_REMOTE_NODE.
    hooks : object
        Callables as attributes, each optional: pickle(value) -> (bytes, buffers), unpickle(bytes, buffers) -> value,
        load_function(value), load_method(instance, name), error_value(exception, function_name) -> tuple,
        make_error(tuple, ref) -> exception, timeout_error(refs, timeout), store_error(code, detail),
        should_retry(exception, function_value) -> bool, enter_task(info), leave_task(info), await_ref(ref),
        ref_future(ref), ref_mimebundle(ref), cancel_ref(ref) -> bool, add_done_callback(ref, function),
        remove_done_callback(ref, function) -> int, reduce_ref(ref) -> tuple, run_meanwhile() -> bool, which
        is called where a task would sleep until others have ended: whether it has run one of them, has_yielded() ->
        bool, which is called when a task's stream has got an item: whether the task is to wait for its reader.
    """

    index: int
    role: int
    origin: int
    current_task: int
    current_task_name: str
    context_version: int
    closed: bool
    holds_output: bool
    def __init__(self, fd: int, role: int, hooks: object) -> None: ...
    def close(self) -> None: ...
    def end_session(self) -> None: ...
    def wake(self) -> None: ...
    # ---- objects
    def put(self, value: T, /) -> Ref[T]: ...
    def put_argument(self, value: T, /) -> Ref[T]: ...
    def shared_sync(self, kind: int, n: int, text: str, /) -> Ref[Any]: ...
    def shared_forms(self, slot: int, /) -> list[tuple[str | None, str, tuple[int, ...]] | str] | None: ...
    def shared(self, forms: tuple[tuple[int, ...], Any] | dict[Any, tuple[tuple[int, ...], Any]], /) -> Any: ...
    def flush(self) -> None: ...
    def set_context(self, value: object, retires: bool, /) -> Ref[Any]: ...
    def replace_workers(self) -> None: ...
    def context(self) -> Any | None: ...
    def ref_at(self, slot: int, /) -> Ref[Any]: ...
    def view(self, ref: Ref[Any], /) -> bytes | Buffer: ...
    def ref_of(self, number: int, /) -> Ref[Any] | None: ...
    def find_ref(self, slot: int, generation: int, /) -> Ref[Any] | None: ...
    def find(self, hex: str, /) -> Ref[Any] | None: ...
    @overload
    def get(
        self, refs: Ref[T], timeout: float | None = None, *, return_exceptions: bool = False, readonly: bool = False
    ) -> T: ...
    @overload
    def get(
        self,
        refs: list[Ref[T]],
        timeout: float | None = None,
        *,
        return_exceptions: bool = False,
        readonly: bool = False,
    ) -> list[T]: ...
    def wait(
        self, refs: list[Ref[T]], num_returns: int, timeout: float | None
    ) -> tuple[list[Ref[T]], list[Ref[T]]]: ...
    def ready(self, ref: Ref[Any], /) -> bool: ...
    def decodes_at_once(self, ref: Ref[Any], /) -> bool: ...
    def mark_waiting(self, ref: Ref[Any], /) -> bool: ...
    def ask_for(self, refs: list[Ref[Any]], /) -> None: ...
    def watch(self, timeout: float | None, /) -> None: ...
    # ---- tasks
    def submitter(
        self,
        function: Ref[Any],
        shape: Shape,
        *,
        num_returns: int = 1,
        max_retries: int = 3,
        retry_exceptions: bool = False,
        actor: Ref[Any] | None = None,
        params: tuple[Any, ...] | None = None,
        check: Callable[[tuple[Any, ...], dict[str, Any]], None] | None = None,
        hidden: bool = False,
        env: bool = False,
        stream: int | None = None,
        group: int = 0,
        placement: int | None = None,
        watch: Watch | None = None,
        renew: Callable[[], tuple[Ref[Any], Watch]] | None = None,
        own_priority: bool = False,
        times: tuple[int, int, int, bool] | None = None,
        about: Callable[[str], Any] | None = None,
    ) -> Submitter: ...
    def cancel(self, ref: Ref[Any], force: bool, /) -> Cancelled: ...
    def cancel_pending(self, refs: list[Ref[Any]], /) -> list[Ref[Any]]: ...
    def children(self, task_number: int, origin: int = -1, /) -> list[Ref[Any]]: ...
    # ---- actors
    def create_actor(
        self,
        function: Ref[Any],
        shape: Shape,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        meta: object,
        name: str = "",
        namespace: str = "",
        max_restarts: int = 0,
        max_task_retries: int = 0,
        max_concurrency: int = 1,
        ordered: bool = True,
        detached: bool = False,
        env: bool = False,
        max_pending: int = 0,
        groups: tuple[int, ...] = (),
        placement: int | None = None,
        own_priority: bool = False,
        refuses: bool = False,
        about: Callable[[str], Any] | None = None,
    ) -> CreatedActor: ...
    def get_actor(self, name: str, namespace: str, /) -> Ref[Any] | None: ...
    def actor_state(self, ref: Ref[Any], /) -> str: ...
    def first_dead(self, refs: list[Ref[Any]], /) -> int: ...
    def actor_death(self, ref: Ref[Any], /) -> ActorDeath | None: ...
    def actor_place(self, ref: Ref[Any], /) -> ActorPlace: ...
    def constructor(self, ref: Ref[Any], /) -> Ref[Any] | None: ...
    def kill_actor(self, ref: Ref[Any], no_restart: bool, /) -> int: ...
    # ---- generators
    def n_returns(self, task: int, /) -> int: ...
    def add_item(self, task: int, index: int, value: object, /) -> bool: ...
    def wait_for_room(self, task: int, n: int, /) -> None: ...
    def has_room(self, task: int, n: int, /) -> bool: ...
    @overload
    def next_item(self, stream: Ref[Any], timeout: None, /) -> Ref[Any] | None: ...
    @overload
    def next_item(self, stream: Ref[Any], timeout: float | None, /) -> Ref[Any] | Literal[False] | None: ...
    def peek_item(self, stream: Ref[Any], /) -> Ref[Any] | None: ...
    # ---- resources and placement groups
    def set_total(self, amounts: Amounts, /) -> None: ...
    def resources(self) -> Resources: ...
    def assigned(self) -> Amounts: ...
    def resource_class(
        self,
        demand: Amounts,
        hold: Amounts | None = None,
        env: int = 0,
        placement: int = 0,
        bundle: int = -1,
        captures: bool = False,
        route: int = 0,
        strategy: str = "",
        priority: int = 0,
        function: str = "",
        most: int = 0,
        interval_s: float = 0.0,
    ) -> ResourceClass: ...
    def placement_number(self) -> int: ...
    def create_placement(
        self, number: int, bundles: list[Amounts], meta: object, name: str, namespace: str, owned: bool, mode: int
    ) -> None: ...
    def placement_reserved(self, number: int, /) -> bool: ...
    def remove_placement(self, number: int, /) -> bool: ...
    def find_placement(self, name: str, namespace: str, /) -> Any | None: ...
    def current_placement(self) -> Any | None: ...
    def captures_children(self) -> bool: ...
    def placements(self) -> list[dict[str, Any]]: ...
    def groups(self) -> list[Group]: ...
    def assign(self, number: int, where: list[int], /) -> bool: ...
    # ---- workers
    def run(self, group: int | None = None, start: Callable[[], bool] | None = None, /) -> int:
        """Executes tasks; -1: leave, otherwise an actor's constructor to run. With both arguments or none."""

    def run_one(self, timeout: float | None, calls: bool = True, /) -> bool | None: ...
    def next(self, timeout: float | None, group: int | None = None, /) -> int: ...
    def set_flush(self, flush: Callable[[], object], /) -> None: ...
    def set_restore(self, restore: Callable[[], object], stdout: object, stderr: object, /) -> None: ...
    def set_call_variable(self, variable: ContextVar[int], /) -> None: ...
    def load(self, task: int, /) -> tuple[Any, tuple[Any, ...], dict[str, Any]]: ...  # first what the hooks load
    def finish(self, task: int, value: Any, /) -> None: ...
    def fail(self, task: int, exception: BaseException, yielded: list[Any] | None = None, /) -> None: ...
    def bind_actor(self, task: int, instance: Any, /) -> None: ...
    def save_checkpoint(self, value: object, /) -> None: ...
    def actor_info(self) -> dict[str, Any] | None: ...
    def task_info(self, task: int, /) -> dict[str, Any]: ...
    def cancelled(self) -> bool: ...
    def forget_function(self, callable: Callable[..., Any], /) -> None: ...
    def collect_cycles(self) -> bool: ...
    # ---- the local scheduler
    def workers_wanted(self) -> int: ...
    def next_start(self) -> float | None: ...
    def next_demand(self, timeout: float | None, /) -> bool: ...
    def pass_times(self) -> Expired: ...
    def set_timeout_grace(self, seconds: float, /) -> None: ...
    def signal(self, pid: int, number: int, /) -> bool: ...
    def client_died(self, index: int, code: int, /) -> dict[str, Any]: ...
    def retire(self, index: int, /) -> bool: ...
    def idle_workers(self) -> list[int]: ...
    def count_workers(self) -> tuple[int, int, int]: ...
    def fail_deepest(self, n_processes: int, /) -> bool: ...
    def n_detached(self) -> int: ...
    def stopped_owner(self) -> StoppedOwner: ...
    def reap(self) -> list[int]: ...
    def detach(self) -> None: ...
    # ---- memory
    def idle_memory(self) -> IdleMemory: ...
    def notice_idle(self, bytes: int, /) -> None: ...
    def give_back(self, bytes: int, /) -> int: ...
    def prepare(self, bytes: int, /) -> int: ...
    def leave_memory(self) -> bool:
        """After the session's end: keeps only the values in use here. False: others are attached still."""

    def set_offload(self, folder: str, limit: int, /) -> None: ...
    def notice_offload(self, bytes: int, /) -> None: ...
    def unwanted_files(self, names: Sequence[str], /) -> list[str]: ...
    # ---- the agent
    def surplus(self) -> list[Surplus]: ...
    def capacity(self) -> Capacity: ...
    def direct(self, how: int, /) -> None: ...
    def in_cluster(self) -> bool | None: ...
    def place_here(self, resource_class: int, most: int, staying: bool, /) -> list[PlacedTask]: ...
    def recall(self, task: int, number: int, /) -> bool: ...
    def fail_unrouted(self, resource_class: int, staying: bool, /) -> int: ...
    def strategy(self, resource_class: int, /) -> str: ...
    def progress(self, tasks: Sequence[tuple[int, int]], /) -> bytes: ...
    def serve(self, meta: object, name: str, namespace: str, /) -> Ref[Any]: ...
    def wake_fd(self) -> int: ...
    # ---- listings
    def clients(self) -> list[dict[str, Any]]: ...
    def tasks(self, limit: int = 10000, /) -> list[dict[str, Any]]: ...
    def count_tasks(self) -> dict[tuple[int, str], int]: ...
    def objects(
        self, limit: int = 10000, at_least: int = 0, first: int = 0, place: str = "", /
    ) -> list[dict[str, Any]]:
        """Those of `at_least` bytes, from slot `first` on, that lie in `place`: memory, disk, slot or, "", anywhere."""

    def actors(self, index: int = -1, /) -> list[dict[str, Any]]: ...
    def actor(self, index: int, generation: int, /) -> dict[str, Any] | None: ...
    def info(self, ref: Ref[Any], /) -> dict[str, Any]: ...
    def why(self, ref: Ref[Any], /) -> dict[str, Any] | None: ...
    def peek(self, slot: int, generation16: int, /) -> tuple[Any, ...] | None: ...
    def stats(self) -> dict[str, Any]: ...
    def check(self) -> list[str]: ...
    def events(self, cursor: int, limit: int, /) -> Events: ...
    def follow_events(self, cursor: int, buffer: np.ndarray, timeout: float | None, span: float, /) -> EventsRead: ...
    def clock(self) -> Clock: ...

class RemoteNode:
    """A client slot that stands for another machine, for the process that speaks with it: bytes and slots, no values.

    What an agent asks of the segment in the other machine's name. Slots are named by numbers; the client holds what it
    has named, so a slot stays what it is.
    """

    index: int
    def __init__(self, client: Client, node: int = 0) -> None: ...
    def close(self, code: int, /) -> None: ...
    # ---- tasks that run there
    def take(self, resource_class: int, most: int, by_place: bool, /) -> list[TaskRecord]: ...
    def results(self, task: int, /) -> list[int]: ...
    def finish(self, task: int, status: int, pid: int, began: float, ended: float, /) -> None: ...
    def began(self, task: int, pid: int, ago: float, /) -> None: ...
    def give_back(self, task: int, /) -> None: ...
    def cancelled(self, tasks: Sequence[int], /) -> list[int]: ...
    def kept(self, resource_class: int, /) -> ClassTerms: ...
    def shape(self, resource_class: int, /) -> Shape: ...
    # ---- tasks that it submits here
    def submit(
        self,
        function: int,
        shape: Shape,
        arguments: bytes,
        refs: list[int],
        n_dependencies: int,
        n_returns: int,
        max_retries: int,
        flags: int,
        origin: int,
        parent: int,
        actor: int | None = None,
        group: int = 0,
        stream_limit: int = -1,
        placement: int = 0,
        times: tuple[int, int, int, bool] | None = None,
        /,
    ) -> SubmittedTask: ...
    def withdraw(self, task: int, number: int, /) -> bool: ...
    def cancel(self, result: int, force: bool, /) -> None: ...
    # ---- actors
    def actor(self, object: int, /) -> ActorRecord | None: ...
    def host(
        self,
        object: int,
        spec: tuple[int, int, tuple[int, ...]],
        function: int,
        shape: Shape,
        arguments: bytes,
        refs: list[int],
        n_dependencies: int,
        flags: int,
        attempt: int,
        origin: int,
        checkpoint: int | None,
        placement: int = 0,
        home: tuple[str, str, int, int, int, bool, bool] | None = None,
        /,
    ) -> SubmittedTask | None: ...
    def stand_in(
        self,
        object: int,
        bytes: ReadableBuffer,
        refs: list[int],
        spec: tuple[int, int, tuple[int, ...]],
        function: int,
        shape: Shape,
        /,
    ) -> int | None: ...
    def bind(self, task: int, /) -> None: ...
    def construction_failed(self, task: int, error: int, /) -> None: ...
    def lose_actor(self, actor: int, code: int, for_good: bool, begun: list[int], others: list[int], /) -> None: ...
    def kill(self, object: int, no_restart: bool, /) -> None: ...
    def calls(self, actor: int, most: int, /) -> list[TaskRecord]: ...
    def checkpoint(self, actor: int, object: int, /) -> None: ...
    def checkpoints(self, objects: list[int], /) -> list[int]: ...
    def find_actor(self, name: str, namespace: str, /) -> int | None: ...
    def actor_news(self, actors: list[int], /) -> list[ActorNews]: ...
    # ---- generators
    def stream_limit(self, task: int, /) -> int: ...
    def item(self, task: int, index: int, /) -> int: ...
    def taken(self, task: int, n: int, /) -> int: ...
    def ahead(self, stream: int, index: int, /) -> int | None: ...
    def advance(self, stream: int, n: int, /) -> None: ...
    # ---- placement groups
    def host_group(self, bundles: list[Amounts], object: int, /) -> int: ...
    def bundle(self, task: int, /) -> TaskBundle | None: ...
    def block(self, task: int, /) -> None: ...
    # ---- objects
    def create(self) -> int: ...
    def seal(
        self, object: int, state: int, bytes: ReadableBuffer, refs: list[int], in_arena: bool = False, /
    ) -> bool: ...
    def seal_failed(self, object: int, code: int, detail: int, /) -> bool: ...
    def seal_remote(self, object: int, size: int, /) -> bool: ...
    def move(self, object: int, lost: bool, /) -> None: ...
    def inspect(self, object: int, /) -> ObjectRecord: ...
    def shared_error(self, object: int, /) -> bytes | None: ...
    def read(self, object: int, at: int, n: int, /) -> bytes: ...
    def hold(self, object: int, generation: int, /) -> bool: ...
    def generation(self, object: int, /) -> int: ...
    def drop(self, objects: list[int], /) -> None: ...
    def await_sealed(self, object: int, /) -> bool: ...
    def sealed(self, objects: list[int], /) -> list[int]: ...
    def unused(self, objects: list[int], /) -> list[int]: ...
    def wanted(self, objects: list[int], /) -> list[int]: ...
    # ---- bytes that come from there
    def begin(self, object: int, makes_room: bool = True, /) -> int: ...
    def fill(self, object: int, memory: int, at: int, bytes: ReadableBuffer, /) -> None: ...
    def peek(self, object: int, memory: int, at: int, n: int, /) -> bytes: ...
    def end(self, object: int, memory: int, complete: bool, /) -> None: ...
    def transfer(self, object: int, size: int, number: int, comes: bool, /) -> None: ...
    def transferred(self, object: int, number: int, comes: bool, complete: bool, /) -> None: ...

class Runs:
    """Where and when tasks ran, read off the event ring; for the agent, which tells the machine that has sent them."""

    def __init__(self, client: Client) -> None: ...
    def watch(self, number: int, /) -> None: ...
    def begun(self, numbers: Sequence[int], /) -> list[Run]: ...
    def take(self, number: int, /) -> RunTimes: ...
