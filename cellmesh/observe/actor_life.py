"""What state an actor is in, and why it has ended, in a few words. Asks no process, and holds no lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exceptions import CellmeshError
from ..exit_codes import DIED_WITH_ITS_MACHINE, how_it_ended

if TYPE_CHECKING:
    from ..objstore._core import Ref

ENDED = "its session has ended"


def life_in_words(ref: Ref) -> str:
    """'alive', 'pending', 'restarting', 'dead: ended by kill()'.

    Parameters
    ----------
    ref : Ref
        The reference to an actor object, as handles hold it.
    """
    client = ref.client
    if client.closed:
        return ENDED
    try:
        state, death = client.actor_state(ref), client.actor_death(ref)
    except CellmeshError:  # the session has ended just now, or this is a forked child
        return ENDED if client.closed else "unknown here"
    return f"dead: {death_in_words(*death)}" if death is not None else state


def death_in_words(how: str, detail: int) -> str:
    """What an actor has died of, as `Client.actor_death` has it."""
    if how == "died":
        return "its machine was lost" if detail == DIED_WITH_ITS_MACHINE else f"its process {how_it_ended(detail)}"
    return {
        "unplaced": "its placement group was removed",
        "constructor": "its constructor failed",
        "killed": "ended by kill()",
        "exited": "it has ended itself",
    }.get(how, "its last handle went")
