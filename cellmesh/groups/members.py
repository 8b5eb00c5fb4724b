"""The actors of a group by rank, shared by all handles of the group in this process and its parts.

They end when nobody holds them, as actors do; what was reserved for them is given back when the last has ended.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..exceptions import ActorDiedError, CellmeshError, GroupMemberDiedError, SessionError
from ..observe.actor_life import death_in_words
from ..scheduler.sync.threads import ServiceThread
from ..session.current import current, of_client
from ..session.futures import without_frames
from ..submit.actor import ActorHandle, find_actor
from ..submit.placement_groups import PlacementGroup
from .on_death import remedy
from .shape import Shape

if TYPE_CHECKING:
    from ..objstore._core import ActorPlace, Client
    from ..session.session import Session
    from .on_death import OnDeath

KILLED_WITHIN_S = 10.0  # its machine is lost if it takes longer
LOOKS_FOR_DEATH_EVERY_S = 0.001, 0.05  # of what was killed: at first, and when that takes its time
LOOKS_EVERY_S = 0.01, 0.5  # whether members have ended, likewise


class Members:
    """The actors of one group.

    Parameters
    ----------
    handles : list of ActorHandle
        By rank.
    shape : Shape
    on_death : {"fail", "restart", "shrink"}
    again : callable, optional
        Makes the member of a rank anew, where the group was made.
    reserved : PlacementGroup, optional
        To be given back.
    """

    def __init__(
        self,
        handles: list[ActorHandle[Any]],
        shape: Shape,
        on_death: OnDeath,
        again: Callable[[int], ActorHandle[Any]] | None = None,
        reserved: PlacementGroup | None = None,
    ) -> None:
        self.handles: list[ActorHandle[Any]] = handles
        self.shape: Shape = shape
        self.on_death: OnDeath = on_death
        self.again: Callable[[int], ActorHandle[Any]] | None = again
        self.reserved: PlacementGroup | None = reserved
        self.version: int = 0  # goes up when a rank has another actor
        self._lock = threading.Lock()
        self._places: list[ActorPlace] = []
        if reserved is not None:
            client = current().client
            self._places += [client.actor_place(handle._cellmesh_ref) for handle in handles]
            weakref.finalize(self, _give_back, client, reserved, self._places).atexit = False

    @property
    def session(self) -> Session:
        """The session that they are of.

        Raises
        ------
        SessionClosedError
            It has ended.
        """
        return of_client(self.handles[0]._cellmesh_ref.client)

    @property
    def class_name(self) -> str:
        """Of all of them."""
        return self.handles[0]._cellmesh_blueprint.class_name

    def found_again(self, ranks: Iterable[int]) -> None:
        """Take those that another process has made in the place of dead ones."""
        of = self.session
        for rank in ranks:
            handle = self.handles[rank]
            if of.client.actor_state(handle._cellmesh_ref) == "dead":
                blueprint = handle._cellmesh_blueprint
                successor = find_actor(of, blueprint.name, blueprint.namespace)
                if successor is not None and successor != handle:
                    self._replace(rank, successor)

    def is_dead(self, rank: int) -> bool:
        """Whether a member will not come back."""
        ref = self.handles[rank]._cellmesh_ref
        return ref.client.actor_state(ref) == "dead"

    def death(self, rank: int) -> tuple[str, ActorDiedError | None]:
        """How a member that is dead has died, and what its constructor has failed with, if it has."""
        ref = self.handles[rank]._cellmesh_ref
        if (error := _constructor_error(ref)) is not None:
            return str(error), error
        death = ref.client.actor_death(ref)
        return death_in_words(*death) if death is not None else "it is restarting", None

    def died(self, rank: int) -> GroupMemberDiedError:
        """The error of who needs a member that is dead."""
        words, error = self.death(rank)
        return GroupMemberDiedError(
            f"member {rank} of the group {self.class_name} is dead: {words}\n\n{remedy(rank)}",
            rank=rank,
            error=error,
        )

    def restart(self, rank: int) -> ActorHandle[Any]:
        """End a member, if it lives, and make it anew."""
        if self.again is None:
            raise RuntimeError(
                f"restart({rank}): only the process that has made the group can make members, and this one was given it"
            )
        with self._lock:
            old = self.handles[rank]
            of = self.session
            of.note_killed(of.client.kill_actor(old._cellmesh_ref, True))
            _wait_for_end(old)
            made = self.again(rank)
            self._replace(rank, made)
            if self._places:
                self._places.append(of.client.actor_place(made._cellmesh_ref))
            return made

    def _replace(self, rank: int, handle: ActorHandle[Any]) -> None:
        self.handles[rank] = handle
        self.version += 1


def _wait_for_end(handle: ActorHandle[Any]) -> None:
    """Until it is known to all that an actor which was killed is dead: its successor is looked for from then on."""
    ref = handle._cellmesh_ref
    end = time.monotonic() + KILLED_WITHIN_S
    _look_until(lambda: ref.client.actor_state(ref) == "dead" or time.monotonic() >= end, *LOOKS_FOR_DEATH_EVERY_S)


def _look_until(is_so: Callable[[], bool], pause_s: float, longest_s: float) -> None:
    """Look again and again, less and less often."""
    while not is_so():
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, longest_s)


def _constructor_error(ref: Any) -> ActorDiedError | None:
    """What a dead actor's constructor has failed with, if it has."""
    made = ref.client.constructor(ref)
    if made is None or not ref.client.ready(made):
        return None
    try:
        ref.client.get(made, 0)
    except ActorDiedError as error:
        return without_frames(error)
    except CellmeshError:
        return None
    return None


def _give_back(client: Client, reserved: PlacementGroup, places: list[ActorPlace]) -> None:
    """Nobody has the members any more in this process: when they have ended, their resources are free."""
    if not client.closed:
        ServiceThread(lambda: _wait_and_give_back(client, reserved, places), "cellmesh-group-end").start()


def _wait_and_give_back(client: Client, reserved: PlacementGroup, places: list[ActorPlace]) -> None:
    def have_ended() -> bool:
        return all((row := client.actor(*place)) is None or row["state"] == "dead" for place in places)

    try:
        _look_until(have_ended, *LOOKS_EVERY_S)
        client.remove_placement(reserved.number)
    except SessionError:  # it has ended, and with it all of this
        return
