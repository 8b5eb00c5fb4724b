"""What an agent's core takes in (events), and what it has its shell do (actions). Pure.

`core.step` says when the shell makes an event of what; `shell` performs the actions, in order, for the agent's process,
the simulation of a cluster and the tests that have several nodes in one process.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .. import placement
from ..leases.actions import Group, GroupPlaced, Send, TakeBack, Tell, Warn
from ..messages import FromHead, Member, Reset, Status, StoreReply, StoreRequest, Usage


# ---------------------------------------------------------------- events
class Connected(Struct, frozen=True):
    """The connection of that attempt with the head is up."""

    attempt: int


class Disconnected(Struct, frozen=True):
    """The connection of that attempt has ended, or did not come up."""

    attempt: int


class HeadSaid(Struct, frozen=True):
    """The head says something on the connection of that attempt."""

    attempt: int
    message: FromHead


class Waiting(Struct, frozen=True):
    """Tasks of one resource class that wait at home, as the segment counts them.

    `n`: those that may run elsewhere; `n_startable`: so many could begin here at this moment; `n_staying`: besides,
    those that cannot travel. `asks`: none of them begins before it is told where, as `wish` says (`strategies.Wish`, as
    text). `in_group`: they run on bundles of a placement group. `fits`: one could run here if nothing else did. `near`:
    bytes of their large arguments, by node. `brings_much`: the last ones that were sent had large arguments with them.
    """

    index: int
    demand: dict[str, int]
    n: int
    n_startable: int = 0
    n_staying: int = 0
    asks: bool = False
    wish: str = ""
    in_group: bool = False
    fits: bool = True
    near: dict[int, int] = {}
    brings_much: bool = False


class Looked(Struct, frozen=True):
    """The whole picture at home: what waits, how many tasks of this node have ended ever (`n_ended`, wherever they
    ran), what `Report` says, and whether tasks of others are here, or objects that others are reading
    (`has_guests`)."""

    waiting: tuple[Waiting, ...] = ()
    free: dict[str, int] = {}
    lent: dict[str, int] = {}
    kept: dict[str, int] = {}
    n_running: int = 0
    n_lent: int = 0
    used_bytes: int = 0
    size_bytes: int = 0
    n_ended: int = 0
    has_guests: bool = False
    usage: Usage = Usage()


class Sent(Struct, frozen=True):
    """A `Send` has been performed: of the `asked` tasks, `n` were there and have been sent."""

    lease: int
    asked: int
    n: int


class Ended(Struct, frozen=True):
    """`n` tasks sent under a lease have ended, or came back. `is_elsewhere`: they were sent to another node."""

    lease: int
    n: int
    is_elsewhere: bool = True


class Waits(Struct, frozen=True):
    """As a node says: `n` of the tasks sent to it under a lease wait there for resources."""

    lease: int
    n: int


class WantGroup(Struct, frozen=True):
    """A placement group wants its bundles reserved, on none of the nodes to `avoid`; without bundles it is removed, and
    what it has goes back. When a node is lost that had some of them, they are gone, and are wanted again by another
    `WantGroup` for these bundles."""

    group: Group
    bundles: tuple[dict[str, int], ...]
    mode: placement.Mode = "PACK"
    avoid: tuple[int, ...] = ()


class Request(Struct, frozen=True):
    """A request to the control store, whose number no other one of this node ever has. Answered by `Pass`, and repeated
    until it is."""

    request: StoreRequest


class PeerDown(Struct, frozen=True):
    """The connection with a node has broken, or none can be made; another is tried."""

    node: int
    reason: str


class PeerUp(Struct, frozen=True):
    """What is sent to a node reaches it."""

    node: int


class PeerProbed(Struct, frozen=True):
    """The answer to a `Probe`: whether anything listens at the node's address."""

    node: int
    is_there: bool


class PeerFaulty(Struct, frozen=True):
    """A node says what it cannot know, or does not read, or what comes from it finds no room here. `for_good`: nothing
    that it says will be taken again."""

    node: int
    reason: str
    for_good: bool


class ResetSaid(Struct, frozen=True):
    """The reset of a `SayReset` is on its way."""

    node: int


class ResetHeard(Struct, frozen=True):
    """A node has ended what was between the two, and this is the last that it says of it."""

    node: int
    reset: Reset


class Congested(Struct, frozen=True):
    """A peer reads more slowly than is sent to it: nothing more for now; or it has caught up."""

    node: int
    is_congested: bool


class SentBack(Struct, frozen=True):
    """A peer has sent tasks back that it had no room for, or that had been asked for."""

    node: int


class SessionEnds(Struct, frozen=True):
    """The session ends by itself, and the node leaves the cluster with it."""


class Tick(Struct, frozen=True):
    """`core.next_deadline` has passed."""


Event = (
    Connected
    | Disconnected
    | HeadSaid
    | Looked
    | Sent
    | Ended
    | Waits
    | WantGroup
    | Request
    | PeerDown
    | PeerUp
    | PeerProbed
    | PeerFaulty
    | ResetSaid
    | ResetHeard
    | Congested
    | SentBack
    | SessionEnds
    | Tick
)


# ---------------------------------------------------------------- actions
class Connect(Struct, frozen=True):
    """Drop the connection with the head, if any, and open another: nothing of the one before may arrive any more. Then
    `Connected` or `Disconnected` with that attempt."""

    attempt: int


class SendToBundles(Struct, frozen=True):
    """Send up to `n` waiting tasks of a resource class to each node that has bundles of their placement group."""

    index: int
    n: int


class PlaceHere(Struct, frozen=True):
    """Up to `n` tasks that ask where to begin do so here, without a lease. `staying`: those only that cannot travel."""

    index: int
    n: int
    staying: bool


class FailUnrouted(Struct, frozen=True):
    """Tasks that ask where to begin have nowhere to run. `staying`: those only that cannot travel."""

    index: int
    staying: bool


class Direct(Struct, frozen=True):
    """Tasks that ask where to begin wait to be told from now on; or, those that may run anywhere, not any more."""

    directs: bool


class MemberCame(Struct, frozen=True):
    """A member, or what has changed of one."""

    member: Member


class MemberLost(Struct, frozen=True):
    """A member is dead, or gone. What it ran for this node, and what it had of it, is lost."""

    node: int
    reason: str


class EndPeer(Struct, frozen=True):
    """End what is between this node and another: tasks that were sent there run again, those from there end."""

    node: int


class SayReset(Struct, frozen=True):
    """Tell a node so, if there is room for it; then `ResetSaid`."""

    node: int
    reset: Reset


class Probe(Struct, frozen=True):
    """See whether anything listens at a node's address; `PeerProbed`, if there is an answer."""

    node: int
    endpoint: str


class Pass(Struct, frozen=True):
    """The answer to a request of the shell's own."""

    message: StoreReply | Status


class BeginDrain(Struct, frozen=True):
    """Nothing from elsewhere starts here any more (`core.Core.draining`)."""

    reason: str


class HeadGone(Struct, frozen=True):
    """For a node with a driver: what needs the head fails with a typed error until it is back."""

    reason: str


class HeadBack(Struct, frozen=True):
    """The head answers again."""


class Say(Struct, frozen=True):
    """For the agent's log."""

    text: str


class Stop(Struct, frozen=True):
    """The last action. "fenced": the node was declared dead, everything that it runs must end, and it may come back
    only as another node; "refused"; "ended", with the cluster; "left"; "head_gone"."""

    kind: Literal["fenced", "refused", "ended", "left", "head_gone"]
    reason: str


Action = (
    Connect
    | Tell
    | Send
    | SendToBundles
    | TakeBack
    | PlaceHere
    | FailUnrouted
    | Direct
    | GroupPlaced
    | Warn
    | MemberCame
    | MemberLost
    | EndPeer
    | SayReset
    | Probe
    | Pass
    | BeginDrain
    | HeadGone
    | HeadBack
    | Say
    | Stop
)
