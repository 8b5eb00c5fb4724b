"""The card of an actor, which its handle displays. The card follows the actor and does not keep it alive.

An actor ends with its last handle, so a card holds none. It holds the actor's slot in the session's table and how often
the slot was used before. That is enough to find the actor as long as it exists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import exceptions
from ...observe.actor_life import death_in_words
from ...observe.nodes import namer
from ...session.current import of_client
from ...session.waiting_for import waits_for
from ...submit.actor import ActorHandle
from ...text import in_resources
from ...tracebacks import readable_traceback
from ..cells.registry import CellRegistry
from ..graph.row import describe
from ..panel_messages import Kind, State
from .actor_html import ActorFacts, actor_card_html, actor_card_text
from .live_display import Bundle, LiveDisplay, Publish

if TYPE_CHECKING:
    from ...objstore._core import Client
    from ...refs import ObjectRef
    from ..graph.model import Graph
    from ..graph.recorder import Recorder

N_LIVE_MAX = 20  # cards that follow their actor; when there are more, the oldest stay as they are
ENDED = (State.FINISHED, State.FAILED, State.CANCELLED)


class _Followed:
    """An actor, without a handle to it."""

    def __init__(self, handle: ActorHandle) -> None:
        ref, blueprint = handle._cellmesh_ref, handle._cellmesh_blueprint
        self.client: Client = ref.client
        self.id = ref.hex()
        self.class_name, self.name = blueprint.class_name, blueprint.name
        self.place = self.client.actor_place(ref) if not self.client.closed else None
        self.creation = 0  # number of the constructor's task, which is known as long as the actor lives

    def look(self) -> dict[str, Any] | None:
        """What the store tells of it; None if it is gone, or its session is."""
        if self.client.closed or self.place is None:
            return None
        try:
            known = self.client.actor(*self.place)
        except exceptions.SessionError:
            return None
        if known is not None:
            self.creation = known["constructor"] or self.creation
        return known


class ActorCards:
    """The cards of actors in one kernel.

    Parameters
    ----------
    registry, recorder, publish, namespace
        As those of `Cards`.
    """

    def __init__(
        self,
        registry: CellRegistry,
        recorder: Callable[[], Recorder | None],
        publish: Publish | None = None,
        namespace: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._registry, self._recorder, self._publish, self._namespace = registry, recorder, publish, namespace
        self._live: dict[str, _Card] = {}
        self._lock = threading.Lock()

    def mimebundle(self, handle: ActorHandle) -> Bundle:
        """An actor as it is now, as text and HTML, for places where nothing can be updated."""
        actor = _Followed(handle)
        if (recorder := self._of(actor)) is not None:
            recorder.look(lambda graph: None)  # without a front end it is some events behind
        return bundle_of(self._facts(actor))

    def show(self, handle: ActorHandle, parent: dict[str, Any]) -> None:
        """Display a card that will follow the actor's state."""
        assert self._publish is not None
        card = _Card(_Followed(handle))
        card.display = LiveDisplay(self._publish, parent, card, self._look, self._looked)
        with self._lock:
            self._live[card.display.display_id] = card
            for _ in range(len(self._live) - N_LIVE_MAX):
                self._live.pop(next(iter(self._live)))
        self._looked(card)

    def on_change(self) -> None:
        """Something happened in the session. Quick when it concerns no card."""
        with self._lock:
            cards = list(self._live.values())
        for card in cards:
            if card.display is not None:
                card.display.update()

    def _look(self, card: _Card) -> Bundle:
        card.facts = self._facts(card.actor)
        return bundle_of(card.facts)

    def _looked(self, card: _Card) -> None:
        if (
            card.facts is not None
            and card.facts.state in ("dead", "gone")
            and not (card.facts.queued or card.facts.running)
        ):
            with self._lock:
                assert card.display is not None
                self._live.pop(card.display.display_id, None)

    # --- facts

    def _facts(self, actor: _Followed) -> ActorFacts:
        made = ActorFacts(actor.class_name, "gone", actor.name)
        known = actor.look()
        variable = self._variable_of(actor.id)
        if known is None:
            if actor.client.closed:
                return made
            return ActorFacts(
                actor.class_name,
                "dead",
                actor.name,
                why="its last handle is gone",
                done=self._n_done(actor),
                is_meant=True,
            )
        state = known["state"]
        error, traceback = _error_in_words(known["error"]) if known["error"] is not None else ("", "")
        amounts = known["holds"] if state == "alive" else known["wants"] if state != "dead" else {}
        return ActorFacts(
            actor.class_name,
            state,
            actor.name,
            why=death_in_words(*known["death"]) if known["death"] is not None else self._why_it_waits(actor, known),
            error=error,
            traceback=traceback,
            cell=self._cell_of(actor),
            node=self._node_of(actor, known),
            pid=known["pid"] if state != "dead" else 0,
            queued=known["pending_calls"],
            running=known["running_calls"],
            done=self._n_done(actor),
            restarts=known["restarts"],
            restarts_left=known["restarts_left"],
            resources=in_resources(amounts) if amounts else "",
            detached=known["detached"],
            variable=variable,
            is_meant=known["death"] is not None and known["death"].how in ("killed", "exited", "ended", "unplaced"),
        )

    def _why_it_waits(self, actor: _Followed, known: dict[str, Any]) -> str:
        if known["state"] == "alive" or known["pid"]:
            return "its constructor runs" if known["pid"] and known["state"] != "alive" else ""
        ref = actor.client.ref_of(known["constructor"]) if known["constructor"] else None
        if ref is None:
            return ""
        try:
            if (why := actor.client.why(ref)) is not None:
                return f"waits for {waits_for(why)}"
            return (
                "waits for the arguments of its constructor"
                if actor.client.info(ref)["state"] == "waiting"
                else "waits for a process"
            )
        finally:  # it may be the actor's own
            del ref
            actor.client.flush()

    def _of(self, actor: _Followed) -> Recorder | None:
        """The recorder, if it records the actor's session."""
        recorder = self._recorder()
        return recorder if recorder is not None and recorder.session.client is actor.client else None

    def _node_of(self, actor: _Followed, known: dict[str, Any]) -> str:
        """The machine where it lives; "" where there is only this one."""
        if (recorder := self._of(actor)) is not None:
            return recorder.name_of_node(known["node"]) if known["pid"] or known["node"] else ""
        return namer(of_client(actor.client))(known["node"]) if known["node"] else ""

    def _cell_of(self, actor: _Followed) -> str:
        recorder = self._of(actor)
        if recorder is None or not actor.creation:
            return ""
        with recorder.lock:
            row = recorder.graph.row_of(actor.creation)
            cell = describe(recorder.graph, row)["cell"] if row >= 0 else 0
        return self._registry.cell(cell).label

    def _n_done(self, actor: _Followed) -> int | None:
        recorder = self._of(actor)
        if recorder is None:
            return None
        with recorder.lock:
            return n_ended_calls(recorder.graph, actor.creation)

    def _variable_of(self, id: str) -> str:
        held = (
            name
            for name, value in list(self._namespace.items())
            if type(value) is ActorHandle and value._cellmesh_ref.hex() == id
        )
        return next((name for name in held if not name.startswith("_")), "")


class _Card:
    """A card on view that may still change."""

    def __init__(self, actor: _Followed) -> None:
        self.actor = actor
        self.display: LiveDisplay[_Card] | None = None
        self.facts: ActorFacts | None = None


def n_ended_calls(graph: Graph, creation: int) -> int:
    """How many calls of an actor have ended, by the number of its constructor's task."""
    row = graph.row_of(creation)
    if row < 0:
        return 0
    entries = graph.entries
    n, actor = entries.n, entries.actor[graph.order[row]]
    at = np.flatnonzero(entries.actor[:n] == actor)
    return int((np.isin(entries.state[at], ENDED) & (entries.kind[at] == Kind.ACTOR_CALL)).sum()) if actor else 0


def bundle_of(facts: ActorFacts) -> Bundle:
    """The card in every form."""
    return {"text/plain": actor_card_text(facts), "text/html": actor_card_html(facts)}


def _error_in_words(error: ObjectRef) -> tuple[str, str]:
    """The error of a constructor in a line, and its traceback."""
    try:
        error.client.get(error, 0)
    except exceptions.ActorDiedError as found:
        cause = found.cause
        line = f"{type(cause).__name__}: {cause}" if cause is not None else str(found).partition("\n")[0]
        return line.partition("\n")[0], readable_traceback(found.remote_traceback)
    except exceptions.CellmeshError as found:
        return str(found).partition("\n")[0], ""
    return "", ""
