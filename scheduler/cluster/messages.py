"""Everything that goes from one machine to another, and its limits. Nothing else defines a wire format between
machines.

A cluster is a head and nodes. A node is a session on one machine: its segment, its local scheduler, its workers, and an
*agent* that speaks for it. The head is one process, the global scheduler with its control store. Every socket is ZeroMQ
with CURVE; who may connect is decided by key before a byte is parsed, see `net`. Encoding is msgpack, one union per
direction:

    newcomer -> head        ToDoor         head socket       keys of join tokens
    machine -> head         ToDoor, ToHead head socket       keys of machines that have joined: their users' commands
    agent -> head           ToHead         head socket       keys of nodes, which their machines have introduced
    head -> any of them     FromDoor, FromHead
    agent -> agent          ToPeer         peer socket       keys of nodes; one way: answers come over the other's own

Identity. `Node` is a node's number, drawn at random when its session starts: a machine that comes back after having
been declared dead is another node. `Epoch` counts the lives of the head. What comes from a node that is not a member
(any more) is not obeyed.

Nothing is sent again on a connection with the head: ZeroMQ delivers in order, or the connection is lost. An agent that
comes back on a new one begins with `Register`, which says all that it holds, and asks again for all that it still
wants; what was on its way is forgotten by both. A request carries a number that the asker chooses, so an answer that
comes twice is recognised.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...objstore._core import MAX_CLASSES, MAX_GROUPS, MAX_KINDS, MAX_POOLS
from ..ipc.messages import N_TAIL_LINES, Bundle, Name, Origin, Pid, Text

# In the first message of either side; bump it with any change here.
CLUSTER_VERSION = 10

# ---------------------------------------------------------------- limits
# One message between control processes; results up to MAX_INLINE_BYTES travel within, larger ones in chunks.
MAX_FRAME_BYTES = 16 << 20
MAX_INLINE_BYTES = 64 << 10
CHUNK_BYTES = 4 << 20
Frame = bytes | bytearray | memoryview  # what comes behind a message, to be read alone
MAX_BATCH = 10_000  # tasks, results or objects in one message
# Tasks taken from a queue before it is asked whether the other reads: with 64 kB of arguments each, a small part of
# what may wait for it.
MOST_AT_ONCE = 128
MAX_NUMBER = (1 << 63) - 1

# A cluster and its nodes.
MAX_NODES = 10_000
MAX_LABELS = 64  # of a node, and of a strategy
MAX_HELD = 100_000  # leases of one agent: every node for some shapes
MAX_ASKS = MAX_CLASSES  # open asks of one agent: resource shapes of a segment
MAX_NAMED = 64  # nodes in `near` and `avoid` of an ask
MAX_BUNDLES = MAX_POOLS - 1  # of a placement group, as many as a segment can have

# The control store.
MAX_KEY_CHARS = 4096  # a name and its namespace, escaped
MAX_VALUE_BYTES = 1 << 20
MAX_KEYS = 10_000  # in one answer; it says whether there are more

# Tasks and objects of another node.
MAX_REFS = 1 << 20  # in one value, or of one task
MAX_VALUES = 65_535  # that one task returns

SESSION_LABEL = "cellmesh.session"  # of every node: the id of its session, for people and commands on its machine

# ---------------------------------------------------------------- what fields are made of
Node = Annotated[int, Meta(ge=1, le=MAX_NUMBER)]
Epoch = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Number = Annotated[int, Meta(ge=0, le=MAX_NUMBER)]
Microseconds = Annotated[int, Meta(ge=0, lt=1 << 53)]
Milliseconds = Annotated[int, Meta(ge=0, lt=1 << 31)]
Slot = Annotated[int, Meta(ge=0, lt=1 << 31)]
Generation = Annotated[int, Meta(ge=0, lt=1 << 32)]
Index = Annotated[int, Meta(ge=0, lt=MAX_BUNDLES)]  # of a bundle in its placement group
Spread = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]  # how bundles are, over nodes
Detail = Annotated[int, Meta(ge=-1 << 31, lt=1 << 31)]  # of a failure: an exit status, -signal, a number
Share = Annotated[int, Meta(ge=0, lt=1 << 48)]  # an amount of a resource in ten-thousandths
Shares = Annotated[dict[Name, Share], Meta(max_length=MAX_KINDS)]
Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
Endpoint = Annotated[str, Meta(max_length=256, pattern=r"^tcp://")]
Labels = Annotated[dict[Name, Name], Meta(max_length=MAX_LABELS)]


class Message(Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all messages."""


# ---------------------------------------------------------------- at the door
class Join(Message, frozen=True, tag="join"):
    """Let the owner of `key` in. Newcomer -> head, over a connection with the key pair of a join token, which is used
    up by it: a machine, which stays known. Machine -> head: a node of it, which is known until it is lost. Answered by
    `Joined` or `Refused`."""

    key: Key
    hostname: Name
    version: int = CLUSTER_VERSION


class Joined(Message, frozen=True, tag="joined"):
    """Head -> newcomer or machine: the key is known from now on."""

    cluster: Name
    head: Endpoint


class Refused(Message, frozen=True, tag="refused"):
    """Head -> newcomer or agent: no; `reason` is a sentence for people."""

    reason: Text


ToDoor = Join
FromDoor = Joined | Refused


# ---------------------------------------------------------------- agent and head
class Member(Struct, frozen=True):
    """What all members know of a node. `endpoint`: where its peers connect; `key`: of this node alone, made when its
    agent began: all members and the head know it by that. `name`: given by the head for the node's life, where
    others of its host are there; "" if it is the host's. See `called`."""

    node: Node
    endpoint: Endpoint
    key: Key
    hostname: Name
    total: Shares
    labels: Labels = {}
    name: Name = ""

    @property
    def called(self) -> str:
        """What people call it: no two members have the same."""
        return self.name or self.hostname


class Held(Struct, frozen=True):
    """The part of a lease that an agent was granted and has not returned: `n` tasks of `demand` on `node`."""

    lease: Number
    node: Node
    demand: Shares
    n: Annotated[int, Meta(ge=1)]


class Register(Message, frozen=True, tag="register"):
    """Agent -> head: first on every connection, again when a head begins its next life. Answered by `Registered`,
    `Refused`, or `Lost` for a node that was declared dead. Whatever the head thought the agent holds or asks for is
    replaced by `held` and by nothing."""

    member: Member
    number: Number  # grows with every connection of the agent: a late one is recognised
    epoch: Epoch = 0  # of the head that it was last registered with; 0: this is its first
    held: Annotated[list[Held], Meta(max_length=MAX_HELD)] = []
    version: int = CLUSTER_VERSION


class RegisterFirst(Message, frozen=True, tag="register_first"):
    """Head -> agent: what came on this connection came from no node that is registered on it. Sent when the connection
    was made again beneath the agent."""


class Registered(Message, frozen=True, tag="registered"):
    """Head -> agent: it is a member. `members`: all of them."""

    cluster: Name
    epoch: Epoch
    members: Annotated[list[Member], Meta(max_length=MAX_NODES)]
    beat_s: float  # how often to send `Report` while there is news
    dead_after_s: float  # after so long without a sign of its machine a node is declared dead
    gone_after_s: float = 60.0  # after so long without a head a node takes it for gone for good


class Usage(Struct, frozen=True, array_like=True):
    """A machine's, whatever uses it: the share of its processors' time that was used lately, bytes of memory in use,
    and bytes there are."""

    load: Annotated[float, Meta(ge=0, le=1)] = 0.0
    memory_bytes: Number = 0
    memory_size: Number = 0


class Report(Message, frozen=True, tag="report"):
    """Agent -> head, every `beat_s` while there is news, else every `rest_s` (`Heard`), and at once when room has come
    up while others wait for it. Answered by `Heard`.

    `lent`: what tasks that run there under a lease take at this moment, of other nodes mostly; with `free`, from one
    look. `n_queued`: tasks that wait for resources there. `used_bytes`: of its object store. `kept`: what actors and
    bundles hold for as long as they live. `n_running`: tasks that run there, and actors that live there, whatever they
    take; `n_lent` of them under a lease.
    """

    node: Node
    number: Number  # grows
    free: Shares
    lent: Shares = {}
    kept: Shares = {}
    n_running: Number = 0
    n_lent: Number = 0
    n_queued: Number = 0
    used_bytes: Number = 0
    size_bytes: Number = 0
    usage: Usage = Usage()


class Heard(Message, frozen=True, tag="heard"):
    """Head -> agent: the answer to each `Report`, so that an agent notices a head that hears and cannot answer.
    `wanted`: other nodes wait for room, so tell at once when some comes up, and keep no lease that is not used."""

    number: Number
    wanted: bool = False
    rest_s: float = 1.0  # how often to send `Report` without news


class Strategy(Struct, frozen=True):
    """Where tasks may go. `kind` "pack": where they fit best, near their arguments; "spread": where least runs; "node":
    on `node`, or elsewhere if `soft`. For any kind: where all of `labels` hold, and if there is room where all of
    `preferred` do, too; see `placement.holds`."""

    kind: Literal["pack", "spread", "node"] = "pack"
    node: int = 0
    soft: bool = False
    labels: Labels = {}
    preferred: Labels = {}

    @property
    def leaves_home(self) -> bool:
        """Whether it is the asker itself that knows whether there is room at home: only what does not care where it
        runs."""
        return self.kind == "pack" and not self.labels and not self.preferred

    @property
    def prefers(self) -> bool:
        """Whether one node is better than another of those that will do."""
        return self.kind == "spread" or self.soft or bool(self.preferred)


class Ask(Message, frozen=True, tag="ask"):
    """Agent -> head: it has `n` tasks that each need `demand`, for which there is no room at home. Answered by
    `Grant`s, which may come late, when room has come up, and for all of them at most `n` in sum; or by `Infeasible`. A
    new `Ask` with the same number replaces the earlier one; `n` 0 takes it back. `near`: bytes of arguments, by the
    node where they lie. `avoid`: nodes that the agent cannot reach. May be granted the agent's own node unless
    `Strategy.leaves_home`."""

    number: Number
    node: Node
    demand: Shares
    n: Number
    strategy: Strategy = Strategy()
    near: Annotated[dict[Node, Number], Meta(max_length=MAX_NAMED)] = {}
    avoid: Annotated[list[Node], Meta(max_length=MAX_NAMED)] = []


class AskGroup(Message, frozen=True, tag="ask_group"):
    """Agent -> head: a placement group wants its bundles reserved, all or none. Answered like `Ask`, by one `Grant`
    whose leases are in the order of the bundles; `bundles` empty takes it back. Numbers are those of `Ask`. `avoid`:
    nodes that are not to have any of them."""

    number: Number
    node: Node
    bundles: Annotated[list[Shares], Meta(max_length=MAX_BUNDLES)]
    mode: Spread = "PACK"
    avoid: Annotated[list[Node], Meta(max_length=MAX_BUNDLES)] = []


class GrantedLease(Struct, frozen=True):
    """`n` tasks of the shape asked for at a time may run on `node`, until the lease is returned or its node lost."""

    lease: Number
    node: Node
    n: Annotated[int, Meta(ge=1)]


class Grant(Message, frozen=True, tag="grant"):
    """Head -> agent: leases for what it asked. An agent that does not want them (any more) returns them."""

    number: Number
    leases: Annotated[list[GrantedLease], Meta(max_length=MAX_BATCH)]


class Recall(Message, frozen=True, tag="recall"):
    """Head -> agent: keep each of these leases for at most that many tasks, as others wait or a node drains. The rest
    is to be returned as soon as what runs under it has ended, and nothing new sent under it. A later `Recall` of a
    lease replaces the earlier one."""

    keep: Annotated[dict[Number, Number], Meta(max_length=MAX_HELD)]


class Return(Message, frozen=True, tag="return"):
    """Agent -> head: each of these leases is returned for so many tasks."""

    leases: Annotated[dict[Number, Annotated[int, Meta(ge=1)]], Meta(max_length=MAX_HELD)]


class Infeasible(Message, frozen=True, tag="infeasible"):
    """Head -> agent: no node could ever run that, as things are. The `Ask` stays: a node that can may join."""

    number: Number
    reason: Text


class Came(Message, frozen=True, tag="came"):
    """Head -> every agent: a node has joined."""

    member: Member


class Lost(Message, frozen=True, tag="lost"):
    """Head -> every agent, the lost one too: that node is no member any more, whatever may still come from it."""

    node: Node
    reason: Text


class Leave(Message, frozen=True, tag="leave"):
    """Agent -> head: its session ends. The connection's end is the answer."""

    node: Node


class Drain(Message, frozen=True, tag="drain"):
    """Command -> head -> agent: nothing new is to start on that node; when its last task has ended it leaves."""

    node: Node


class StoreRequest(Message, frozen=True, tag="store_request"):
    """Agent -> head: a request to the control store, answered by one `StoreReply`. Repeated with the same number it is
    done once.

    `operation`: "get", "put" (whatever was there), "claim" (only if nothing is there), "swap" (only if `expected` is
    there), "delete", "keys" (that begin with `key`), "latest" (likewise, the last ones first, with their values).
    `table`: "names" (actors), "kv" (of users), "jobs" (`JobRecord`), "runs" (`RunRecord`), "groups" (`GroupRecord`); of
    jobs and runs the last ones are kept.
    """

    number: Number
    node: Node
    table: Literal["names", "kv", "jobs", "runs", "groups"]
    operation: Literal["get", "put", "claim", "swap", "delete", "keys", "latest"]
    key: Annotated[str, Meta(max_length=MAX_KEY_CHARS)]
    value: Annotated[bytes, Meta(max_length=MAX_VALUE_BYTES)] = b""
    lives_with: bool = False  # the entry goes when the node is lost
    expected: Annotated[bytes, Meta(max_length=MAX_VALUE_BYTES)] = b""


class StoreReply(Message, frozen=True, tag="store_reply"):
    """Head -> agent. `done`: whether there was something to get or delete, or nothing in the way of a claim or swap.
    `more`: not all keys are told. `error`: why the request could not be done; asked again with its number, it is done
    once, whether this try has done it or not. `full`: because there is no room."""

    number: Number
    done: bool
    value: bytes = b""
    keys: Annotated[list[str], Meta(max_length=MAX_KEYS)] = []
    values: Annotated[list[bytes], Meta(max_length=MAX_KEYS)] = []
    more: bool = False
    error: Text = ""
    full: bool = False


class JobRecord(Struct, frozen=True):
    """A driver, as the control store has it in "jobs", by the time when it was seen first: Unix time, of its machine's
    clock. `ended` 0: it has not, or its node was lost. `notebook`: "" for other programs."""

    node: Node
    hostname: Name
    session: Name
    pid: Pid
    program: Text
    notebook: Text
    started: float
    ended: float = 0.0


class RunRecord(Struct, frozen=True):
    """What had gone on in a driver's session when it left, or so far, in "runs", by the same keys. `n_tasks`: tasks and
    calls that have ended, of other drivers too; of them so many elsewhere. `peak_bytes`: the most that the object store
    has held."""

    job: JobRecord
    n_tasks: Number = 0
    n_elsewhere: Number = 0
    peak_bytes: Number = 0


class GroupRecord(Struct, frozen=True):
    """A placement group, as the control store has it in "groups" as long as its home, `node`, is a member. `machines`:
    where its bundles are, the last 32 bits of the number of a node, 0: at home, None: nowhere yet."""

    node: Node
    session: Name
    number: Number
    name: str
    namespace: str
    strategy: Name
    state: Name
    bundles: list[dict[str, float]]
    machines: list[int | None]


class StatusRequest(Message, frozen=True, tag="status_request"):
    """Agent or command -> head: what the cluster looks like. Answered by one `Status`."""

    number: Number


class NodeStatus(Struct, frozen=True):
    """One node, for people."""

    member: Member
    state: Literal["alive", "draining", "dead"]
    free: Shares
    n_queued: Number
    used_bytes: Number
    size_bytes: Number
    silent_s: float  # since its last report
    reason: Text = ""  # why it is dead
    usage: Usage = Usage()


class Status(Message, frozen=True, tag="status"):
    """Head -> agent or command: the answer."""

    number: Number
    cluster: Name
    epoch: Epoch
    nodes: Annotated[list[NodeStatus], Meta(max_length=MAX_NODES)]
    n_asked: Number  # tasks that nodes ask leases for
    n_granted: Number  # tasks that leases are held for


class End(Message, frozen=True, tag="end"):
    """Command -> head -> every agent: the cluster ends, with every session in it that has no driver of its own."""

    reason: Text


ToHead = Register | Report | Ask | AskGroup | Return | Leave | Drain | StoreRequest | StatusRequest | End
FromHead = (
    Registered
    | Refused
    | RegisterFirst
    | Heard
    | Grant
    | Recall
    | Infeasible
    | Came
    | Lost
    | Drain
    | StoreReply
    | Status
    | End
)


# ---------------------------------------------------------------- agent and agent
class Ref(Struct, frozen=True, array_like=True):
    """An object, by its slot in the segment of the machine that has told the other of it.

    The node that tells of an object keeps it until the other has `Released` it as often as it was told of it. `yours`:
    the receiver told of it; the slot is one of the receiver's then. `value` comes with it the first time.
    """

    slot: Slot
    generation: Generation
    yours: bool = False
    value: Value | None = None


class Actor(Struct, frozen=True, array_like=True):
    """What a machine must know of an actor that lives, or has its home, on another one. `flags`: as in the segment;
    `concurrency`: calls that run at a time; `limits`: the same by concurrency group, 0: any number."""

    flags: Annotated[int, Meta(ge=0, le=65535)]
    concurrency: Annotated[int, Meta(ge=0, le=1 << 31)]
    limits: Annotated[list[Annotated[int, Meta(ge=0, le=1 << 31)]], Meta(max_length=MAX_GROUPS)]


class Value(Struct, frozen=True, array_like=True):
    """What an object holds. `state`: as in the segment. `data`: its bytes, of a value of at most `MAX_INLINE_BYTES`;
    else nothing, and the receiver fetches them when they are read, or at once where they contain references, which
    stand in `refs`. `code`, `detail`: why there is no value. `there`: of a result, where its bytes lie, if not in
    `data`. `actor`: the object is a handle."""

    state: Annotated[int, Meta(ge=1, le=4)]
    size: Number = 0
    data: Annotated[bytes, Meta(max_length=MAX_INLINE_BYTES)] = b""
    refs: Annotated[list[Ref], Meta(max_length=MAX_REFS)] = []
    code: Annotated[int, Meta(ge=0, le=255)] = 0
    detail: Detail = 0
    there: Ref | None = None
    actor: Actor | None = None


class Home(Struct, frozen=True, array_like=True):
    """What the home of an actor knows of it besides, which is to be with the receiver. `restarts`: how often it begins
    again, -1: any number; `retries`: of its calls; `most_pending`: calls, 0: any number; `refuses`: calls while it
    begins again."""

    name: Name = ""
    namespace: Name = ""
    restarts: Annotated[int, Meta(ge=-1, lt=1 << 31)] = 0
    retries: Annotated[int, Meta(ge=-1, lt=1 << 31)] = 0
    most_pending: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    is_detached: bool = False
    refuses: bool = False


class GroupBundle(Struct, frozen=True, array_like=True):
    """One of those that the receiver has reserved for a placement group of the sender's. `captures`: what runs in it
    begins what it begins in the group, too."""

    group: Number
    index: Index
    captures: bool = False


class Times(Struct, frozen=True, array_like=True):
    """What `cellmesh.submit.options.times_of` gives: ms that an attempt may run, the first and the longest wait before
    another one, and whether one that ran too long is followed by another."""

    timeout: Milliseconds
    delay: Milliseconds
    most_delay: Milliseconds
    retries_timeout: bool


class Task(Struct, frozen=True, array_like=True):
    """A task for the receiver. `number`: the sender's, for the answer. `refs`: dependencies first, then what is nested
    in the arguments. `origin`: the sender's number of the cell, or, if the task `comes_home`, the receiver's own.

    `creates`: it constructs this actor, which then keeps `hold`; `attempt`: for which time; `checkpoint`: what it
    saved. `home`: the actor is to be one of the receiver's, who answers at once, with `Result.actor`, or, as its name
    is taken, without. `stream`: it yields, and may be that many items ahead of its reader, 0: any number; -1: it does
    not. `env`: number of the environment that its function wants. `actor`: it is a call of this actor, one of the
    receiver's, which may live with the sender and have its name, in the concurrency group `group`; calls of an actor
    are begun in the order in which they come. `bundle`: it takes its resources from there. `priority`: as in its
    options; how many of its function run, and how soon after one another, is the sender's to see to. `times`: how long
    it may run, and waits before it is tried again."""

    number: Number
    function: Ref
    demand: Shares
    arguments: bytes
    refs: Annotated[list[Ref], Meta(max_length=MAX_REFS)]
    n_dependencies: Number
    n_returns: Annotated[int, Meta(ge=0, le=65535)]
    max_retries: Annotated[int, Meta(ge=-1, le=32767)]
    flags: Annotated[int, Meta(ge=0, le=65535)]
    origin: Origin = 0
    comes_home: bool = False
    creates: Value | None = None
    hold: Shares = {}
    attempt: Annotated[int, Meta(ge=0, le=65535)] = 0
    checkpoint: Ref | None = None
    stream: Annotated[int, Meta(ge=-1, lt=1 << 32)] = -1
    env: Annotated[int, Meta(ge=0, lt=1 << 32)] = 0
    actor: Ref | None = None
    group: Annotated[int, Meta(ge=0, le=11)] = 0
    bundle: GroupBundle | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    times: Times | None = None
    home: Home | None = None


class Tasks(Message, frozen=True, tag="tasks"):
    """Run these. Each is answered once, by `Results` or `Returned`, or by the end of the connection."""

    tasks: Annotated[list[Task], Meta(max_length=MAX_BATCH)]


class Result(Struct, frozen=True, array_like=True):
    """A task has ended. `values`: one for each return. `actor`: which it has constructed. It `waited` there, `ran` in
    the process `pid`, and its result was `kept` until this was sent: clocks of two machines differ, durations do not.
    `pid` 0: it is not known."""

    number: Number
    status: Annotated[int, Meta(ge=0, le=3)]
    values: Annotated[list[Value], Meta(max_length=MAX_VALUES)]
    actor: Ref | None = None
    pid: Annotated[int, Meta(ge=0, le=1 << 22)] = 0
    waited: Microseconds = 0
    ran: Microseconds = 0
    kept: Microseconds = 0


class Results(Message, frozen=True, tag="results"):
    """These tasks of yours have ended."""

    results: Annotated[list[Result], Meta(max_length=MAX_BATCH)]


class Items(Message, frozen=True, tag="items"):
    """What a task of yours has yielded, from item `at` on; items may be told again when it is repeated."""

    number: Number
    at: Number
    values: Annotated[list[Value], Meta(max_length=MAX_BATCH)]


class Taken(Message, frozen=True, tag="taken"):
    """`n` items of a task of mine have been taken by its reader; `closed`: it is not read on."""

    number: Number
    n: Number
    closed: bool = False


class Returned(Message, frozen=True, tag="returned"):
    """These tasks of yours have not begun and will not: there is no room, or the node is drained."""

    numbers: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class Blocked(Message, frozen=True, tag="blocked"):
    """These tasks of yours wait for others, and do not count under their leases meanwhile. Said once of
    each task."""

    numbers: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class Run(Struct, frozen=True, array_like=True):
    """A task runs, in the process `pid`, since so long."""

    number: Number
    pid: Annotated[int, Meta(ge=1, le=1 << 22)]
    since: Microseconds


class Begun(Message, frozen=True, tag="begun"):
    """These tasks of yours run. Said once of each that runs for a while, for people who look on."""

    tasks: Annotated[list[Run], Meta(max_length=MAX_BATCH)]


class Queued(Message, frozen=True, tag="queued"):
    """These tasks of yours wait for room here, and no others. Said now and then as long as there are any, and once
    there are none."""

    numbers: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class GiveBack(Message, frozen=True, tag="give_back"):
    """There is room elsewhere for these tasks of mine. Those that have not begun are `Returned`."""

    numbers: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class Cancel(Message, frozen=True, tag="cancel"):
    """The results of these tasks of mine are not wanted any more."""

    numbers: Annotated[list[Number], Meta(max_length=MAX_BATCH)]


class Told(Struct, frozen=True, array_like=True):
    """`n`: how often it has been told of."""

    slot: Slot
    generation: Generation
    n: Number = 1


class ActorEnded(Message, frozen=True, tag="actor_ended"):
    """An actor of yours that lived here has ended with `code`, -signal or exit status, `for_good` if it wanted to. So
    have its calls that were not answered; `begun`: those that had begun. Answered by `Released`."""

    actor: Told
    code: Detail
    for_good: bool
    begun: Annotated[list[Number], Meta(max_length=MAX_BATCH)] = []


class Checkpoint(Message, frozen=True, tag="checkpoint"):
    """An actor of yours that lives here has saved this for its next life."""

    actor: Told
    state: Ref


class Kill(Message, frozen=True, tag="kill"):
    """End this actor of yours, or the one that lives with you, or, by the name that it has here, the one of yours that
    `lives_here`; or, before you have told of it, the one that task `number` of mine constructs."""

    actor: Told | None
    number: Number
    no_restart: bool
    lives_here: bool = False


class Reserve(Message, frozen=True, tag="reserve"):
    """Put these bundles of a placement group of mine aside, for tasks that name them. `about`: what describes the
    group; `mode`: how an engine, which has several machines, is to spread them. Answered by one `Reserved`, once there
    is room."""

    group: Number
    about: Ref
    indexes: Annotated[list[Index], Meta(min_length=1, max_length=MAX_BUNDLES)]
    bundles: Annotated[list[Shares], Meta(min_length=1, max_length=MAX_BUNDLES)]
    mode: Spread = "PACK"


class Reserved(Message, frozen=True, tag="reserved"):
    """These bundles of your group are put aside; or, not `given`, will not be."""

    group: Number
    indexes: Annotated[list[Index], Meta(max_length=MAX_BUNDLES)]
    given: bool = True


class Unreserve(Message, frozen=True, tag="unreserve"):
    """These bundles of my group are not wanted any more, nor what runs in them."""

    group: Number
    indexes: Annotated[list[Index], Meta(max_length=MAX_BUNDLES)]


class Find(Message, frozen=True, tag="find"):
    """Is there a living actor of that name with you? Answered by one `Found` of that number."""

    number: Number
    name: Name
    namespace: Name


class Found(Message, frozen=True, tag="found"):
    """The actor that you have asked for; None: there is none."""

    number: Number
    actor: Ref | None = None


class Released(Message, frozen=True, tag="released"):
    """These objects of yours, which were told of so often, are not known here any more."""

    objects: Annotated[list[Told], Meta(max_length=MAX_BATCH)]


class Want(Message, frozen=True, tag="want"):
    """What do these objects of yours hold? Answered by `Sealed`, once they are."""

    objects: Annotated[list[Told], Meta(max_length=MAX_BATCH)]


class Sealed(Message, frozen=True, tag="sealed"):
    """These objects, of which you know or have asked, hold this."""

    objects: Annotated[list[Ref], Meta(max_length=MAX_BATCH)]


class Fetch(Message, frozen=True, tag="fetch"):
    """The bytes of an object, from `at` on: of yours, or, if that is not 0, of the node `home`, whose numbers these
    are. Answered by one `Chunk`; with `at` 0, for a large one, perhaps by `Redirect`, but not if it is to come from you
    in any case (`direct`)."""

    slot: Slot
    generation: Generation
    at: Number
    n: Annotated[int, Meta(ge=0, le=CHUNK_BYTES)]
    home: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] = 0
    direct: bool = False


class Chunk(Message, frozen=True, tag="chunk"):
    """Some bytes of an object, in the frame behind this one. `found` false: there is no such object any more. `home`:
    as asked."""

    slot: Slot
    generation: Generation
    at: Number
    found: bool = True
    home: Annotated[int, Meta(ge=0, le=MAX_NUMBER)] = 0


class Redirect(Message, frozen=True, tag="redirect"):
    """`node` has that object of mine, or is getting it: ask there first."""

    slot: Slot
    generation: Generation
    node: Node


class Copied(Message, frozen=True, tag="copied"):
    """All of that large object of yours is here; others may have it from me."""

    slot: Slot
    generation: Generation


class Output(Message, frozen=True, tag="output"):
    """A task of yours, or one that it has begun here, has printed this. `task`: your number of it, 0 for what it has
    begun; `origin`: your cell. The others as in `scheduler.messages.WorkerOutput`. May be lost."""

    task: Number
    origin: Origin
    stream: Literal["stdout", "stderr", "log", "warning", "display", "update_display", "clear_output"]
    pid: Pid
    text: Text = ""
    bundle: Bundle = ""
    name: Name = ""


class Died(Message, frozen=True, tag="died"):
    """The worker that ran that task of yours has ended without having been asked to. `code`: -signal or exit status.
    `tail`: the last lines that it printed. May be lost."""

    task: Number
    pid: Pid
    code: Detail
    tail: Annotated[list[Text], Meta(max_length=N_TAIL_LINES)] = []


class Flush(Message, frozen=True, tag="flush"):
    """Send me what tasks of mine, and those that they have begun, have printed by now that ran there. Answered once by
    `Flushed`, unless the connection is lost. `wave`: the same in all that one driver's question leads to."""

    number: Number
    wave: Number = 0


class Flushed(Message, frozen=True, tag="flushed"):
    """All that tasks of yours had printed that had ended when you asked is on its way before this."""

    number: Number


class Reset(Message, frozen=True, tag="reset"):
    """The sender has ended all that was between us, and takes nothing from there but a reset. What comes after both
    resets belongs to what begins again; nothing does if one is for good. `reason`: for people."""

    reason: Text
    for_good: bool = False


ToPeer = (
    Tasks
    | Results
    | Items
    | Taken
    | Returned
    | Blocked
    | Begun
    | Queued
    | GiveBack
    | Cancel
    | ActorEnded
    | Checkpoint
    | Kill
    | Reserve
    | Reserved
    | Unreserve
    | Find
    | Found
    | Released
    | Want
    | Sealed
    | Fetch
    | Chunk
    | Redirect
    | Copied
    | Output
    | Died
    | Flush
    | Flushed
    | Reset
)
