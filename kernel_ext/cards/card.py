"""The card of a future: what is known of a ref, displayed and updated as its state changes.

Showing a card never waits and never fetches. A thread does what takes time: the error's traceback, and the preview,
which a hidden task computes where the value lies. Then the card is updated in place. Events of the session cause
updates, not a timer; a card that can change no more costs nothing.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ... import exceptions
from ...observe.history import submission_of
from ...refs import ObjectRef
from ...session.waiting_for import waits_for
from ...text import in_one_line
from ...tracebacks import readable_traceback
from ..background import in_background
from ..cells.interactive import is_interactive
from ..cells.registry import CellRegistry
from ..graph.row import describe
from ..output.tails import tails_of
from ..panel_messages import UNKNOWN
from .html import STATES, CardFacts, card_html, card_text
from .live_display import Bundle, LiveDisplay, Publish
from .preview import summarize

if TYPE_CHECKING:
    from ...objstore._core import Client
    from ..graph.model import Graph
    from ..graph.recorder import Recorder

PREVIEW_TIMEOUT_S = 2.0
N_LIVE_MAX = 100  # cards that follow their state; when there are more, the oldest stay as they are
N_ENDED_MAX = 100  # cards of ended tasks whose last output may still be on its way
# Values of these encodings that are at most that long are summarised here: they are no larger than a summary.
SMALL_ENCODINGS = {"None", "bool", "int", "float", "complex", "str", "bytes"}
SMALL_BYTES = 4096
FINAL = {"finished", "failed", "cancelled", "gone"}


@dataclass(frozen=True)
class ValueFacts:
    """What takes time to find out about a value."""

    preview: dict[str, Any] | None = None
    error: str = ""
    traceback: str = ""
    note: str = ""


@dataclass
class _Live:
    """A card on view that may still change."""

    ref: ObjectRef
    facts: CardFacts
    run: (
        int  # the %%remote cell whose result it is and under which it stands, where the text of its task stands, too; 0
    )
    display: LiveDisplay[_Live] | None = None
    tells_text: bool = False
    shown: tuple[Any, ...] = ()  # signature of what was shown last
    value: ValueFacts | None = None
    asked: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass
class _Ended:
    """A card on view that can change only by what its task has printed last; it must not keep the value alive."""

    client: weakref.ref[Client]
    task: int
    display_id: str
    parent: dict[str, Any]
    facts: CardFacts


class Cards:
    """The cards of one kernel.

    Parameters
    ----------
    registry : CellRegistry
    recorder : callable
        Gives the present `Recorder`, or None.
    publish : callable, optional
        Shows a card, or updates it in place; None where that is not possible (terminals).
    namespace : mapping, optional
        The notebook's variables.
    """

    def __init__(
        self,
        registry: CellRegistry,
        recorder: Callable[[], Recorder | None],
        publish: Publish | None = None,
        namespace: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._registry = registry
        self._recorder = recorder
        self._publish = publish
        self._namespace = namespace
        self._live: dict[str, _Live] = {}
        self._ended: OrderedDict[str, _Ended] = OrderedDict()
        self._lock = threading.Lock()
        self._previewer = Previewer()

    # --- showing

    def mimebundle(self, ref: ObjectRef) -> Bundle:
        """A ref as it is now, as text and HTML, for places where nothing can be updated."""
        return bundle_of(self.facts(ref))

    def show(self, ref: ObjectRef, parent: dict[str, Any]) -> None:
        """Display a card that will follow its ref's state."""
        assert self._publish is not None
        facts, run = self.facts(ref), self._registry.current
        body = self._registry.body(run.number)
        is_result = bool(body) and (facts.function, facts.cell) == (body, run.label)
        card = _Live(ref, facts, run.number if is_result else 0)
        card.display = LiveDisplay(self._publish, parent, card, self._look, self._looked)
        with self._lock:
            self._live[card.display.display_id] = card
            for _ in range(len(self._live) - N_LIVE_MAX):
                self._live.pop(next(iter(self._live)))
        self._look_at(card)

    def followed(self) -> list[ObjectRef]:
        """What the cards that may still change hold."""
        with self._lock:
            return [card.ref for card in self._live.values()]

    def on_change(self) -> None:
        """Something happened in the session. Quick when it concerns no card."""
        with self._lock:
            cards = list(self._live.values())
        for card in cards:
            self._look_at(card)

    def on_text(self, client: Client, tasks: set[int]) -> None:
        """Tasks of a session have printed something. They may have ended: output takes another way than results."""
        with self._lock:
            all_live, all_ended = [*self._live.values()], [*self._ended.values()]
        live = [card for card in all_live if card.ref.client is client and card.ref.creator in tasks]
        ended = [card for card in all_ended if card.client() is client and card.task in tasks]
        for card in live:
            # A program that saves the notebook misses what comes now; the card has it.
            assert card.display is not None
            card.tells_text |= (
                bool(card.run) and not self._registry.is_running(card.run) and not is_interactive(card.display.parent)
            )
            self._look_at(card)
        for card in ended:
            card.facts = replace(card.facts, output=tails_of(client).of(card.task))
            assert self._publish is not None
            self._publish(bundle_of(card.facts), card.display_id, True, card.parent)

    def _look_at(self, card: _Live) -> None:
        signature = self._signature(card)
        with card.lock:
            asks = signature[0] in FINAL and not card.asked
            card.asked |= asks
        if asks:
            in_background(partial(self._ask_for_value, card))
        assert card.display is not None
        if signature != card.shown:
            card.display.update(at_once=card.value is not None)
        elif self._is_done(card, signature):
            self._forget(card)

    def _signature(self, card: _Live) -> tuple[Any, ...]:
        """Changes when the card would look different."""
        state = state_of(card.ref)
        recorder = self._recorder()
        seen = ""
        if recorder is not None and not card.ref.client.closed:
            with recorder.lock:
                row = recorder.graph.row_of(card.ref.creator)
                seen = recorder.graph.state(row).name.lower() if row >= 0 else ""
        return state, seen, card.value is not None, tails_of(card.ref.client).n_chars(card.ref.creator)

    def _is_done(self, card: _Live, signature: tuple[Any, ...]) -> bool:
        recorder = self._recorder()
        followed = recorder is not None and recorder.is_live and recorder.session.client is card.ref.client
        return card.value is not None and (not followed or signature[1] in ("", *FINAL))

    def _look(self, card: _Live) -> Bundle:
        signature = self._signature(card)
        card.facts = with_value(self.facts(card.ref), card.value)
        card.shown = signature
        return _bundle_on(card)

    def _looked(self, card: _Live) -> None:
        if self._is_done(card, card.shown):
            self._forget(card)

    def _forget(self, card: _Live) -> None:
        display = card.display
        assert display is not None
        ended = _Ended(weakref.ref(card.ref.client), card.ref.creator, display.display_id, display.parent, card.facts)
        with self._lock:
            if self._live.pop(display.display_id, None) is not None and not (
                card.run and is_interactive(display.parent)
            ):
                self._ended[display.display_id] = ended
                for _ in range(len(self._ended) - N_ENDED_MAX):
                    self._ended.popitem(last=False)

    def _ask_for_value(self, card: _Live) -> None:
        card.value = self.value_facts(card.ref)
        assert card.display is not None
        card.display.update(at_once=True)

    # --- facts

    def facts(self, ref: ObjectRef) -> CardFacts:
        """What is known of a ref at once."""
        client = ref.client
        recorder = self._recorder()
        row = _row(recorder, ref)
        if client.closed:
            return self._facts_of_row(row, recorder, "gone", ref.hex())
        info = client.info(ref)
        state = state_of(ref)
        made = self._facts_of_row(row, recorder, state, info["id"])
        name, origin = info["name"] or made.function, info["origin"]
        if not name and not info["put"]:  # it has ended, and nothing has recorded it (yet); the ring may know it
            name, origin = submission_of(client, ref.creator)
        return replace(
            made,
            function=name,
            what="object" if info["put"] else made.what,
            attempt=info["attempt"],
            most_attempts=info["most_attempts"],
            retry_in_s=info["waits_s"] or None,
            pid=info["pid"] or made.pid,
            cell=made.cell or self._registry.cell(origin).label,
            size=info["size"] if state == "finished" else None,
            output=tails_of(client).of(ref.creator),
            variable=self._variable_of(ref),
        )

    def in_short(self, ref: ObjectRef, asks: bool) -> str:
        """A ref among others, in a list or a dict; `asks`: whether to look for a name that is not at hand."""
        info = ref.client.info(ref) if not ref.client.closed else {"name": "", "put": False}
        function = _row(self._recorder(), ref).get("function", "")
        name = info["name"] or (function if function != UNKNOWN else "") or ("put()" if info["put"] else "")
        if not name and asks:
            name = submission_of(ref.client, ref.creator)[0]
        return f"<ObjectRef{' ' if name else ''}{in_one_line(name)}: {STATES[state_of(ref)][1]}>"

    def _variable_of(self, ref: ObjectRef) -> str:
        held = (name for name, value in list(self._namespace.items()) if type(value) is ObjectRef and value == ref)
        return next((name for name in held if not name.startswith("_")), "")

    def _facts_of_row(self, row: dict[str, Any], recorder: Recorder | None, state: str, name: str) -> CardFacts:
        if not row or recorder is None:
            return CardFacts(name, state)
        submitted, ready, started, called = (row[name] for name in ("submitted", "ready", "started", "called"))
        finished, queued_until = row.get("ended") or row["finished"], row.get("sent") or started
        began = started if started is not None else queued_until
        since = time.strftime("%H:%M:%S", time.localtime(recorder.unix_time(began))) if began is not None else ""
        return CardFacts(
            name,
            state,
            row["function"] if row["function"] != UNKNOWN else "",
            row["kind"],
            self._registry.cell(row["cell"]).label,
            row["seq"],
            pid=row["pid"] or 0,
            since=since,
            inputs_s=None if None in (submitted, ready, queued_until) else min(ready, queued_until) - submitted,
            queued_s=None if None in (ready, queued_until) else max(0.0, queued_until - ready),
            loaded_s=None if None in (started, called) else called - started,
            ran_s=None if None in (started, finished) or row["kind"] == "object" else finished - (called or started),
            size=int(row["size"]) if row["size"] is not None else None,
            pid_there=row.get("pid_there", 0),
            node=recorder.name_of_node(row["node"]) if began is not None and row["kind"] != "object" else "",
            is_sent=began is not None and started is None,
        )

    def value_facts(self, ref: ObjectRef) -> ValueFacts:
        """What has to be asked for: the error's traceback, the preview. May take `PREVIEW_TIMEOUT_S`."""
        client = ref.client
        try:
            if client.closed:
                return ValueFacts()
            info = client.info(ref)
            if info["state"] == "finished":
                if info["kind"] == "inline" and info["encoding"] in SMALL_ENCODINGS and info["size"] <= SMALL_BYTES:
                    return ValueFacts(summarize(client.get(ref, 1.0)))
                return self._previewer.preview(ref)
            client.get(ref, 1.0)
        except exceptions.TaskError as error:
            traceback = readable_traceback(error.remote_traceback)
            return ValueFacts(error=_first_line(f"{error.cause_type}: {error.message}"), traceback=traceback)
        except exceptions.CellmeshError as error:
            return ValueFacts(error=_first_line(f"{type(error).__name__}: {error}"))
        return ValueFacts()

    def all_facts(self, ref: ObjectRef) -> CardFacts:
        """What is known of a ref, with what it waits for, its preview or its error. May take `PREVIEW_TIMEOUT_S`."""
        made = self.facts(ref)
        if made.state in ("queued", "retrying") and not made.retry_in_s and (why := ref.client.why(ref)) is not None:
            return replace(made, waits_for=waits_for(why))
        if made.is_sent and (recorder := self._recorder()) is not None:
            taken, there = recorder.cpus_of_node(_row(recorder, ref)["node"])
            return replace(made, waits_for=f"all {there:g} CPUs there are taken" if taken >= there > 0 else "")
        return with_value(made, self.value_facts(ref)) if made.state in FINAL else made

    def of_row(self, recorder: Recorder, number: int) -> CardFacts:
        """Everything about a row of the graph, the preview included if its value still lives. May take a while.

        Raises
        ------
        IndexError
            When there is no such row.
        """
        row = row_of(recorder, number)
        ref = recorder.session.client.ref_of(row["seq"]) if recorder.is_live else None
        if ref is not None and row["kind"] != "actor_creation":
            return self.all_facts(ref)
        made = self.facts(ref) if ref is not None else self._facts_of_row(row, recorder, row["state"], "")
        if row["state"] == "failed":
            error, traceback = recorder.session.errors.of(row["seq"])
            return replace(made, error=error, traceback=readable_traceback(traceback))
        note = "Nobody holds a reference to the value any more." if ref is None and row["state"] == "finished" else ""
        return replace(made, note=note)


class Previewer:
    """Has values summarised by hidden tasks that need no CPU of their own."""

    def __init__(self) -> None:
        self._submit: tuple[Client, Callable[[ObjectRef], ObjectRef]] | None = None

    def preview(self, ref: ObjectRef) -> ValueFacts:
        """The value's summary, or why there is none."""
        client = ref.client
        result = self._submitter(client)(ref)
        try:
            return ValueFacts(client.get(result, PREVIEW_TIMEOUT_S))
        except exceptions.GetTimeoutError:
            client.cancel(result, False)
            return ValueFacts(note=f"No preview within {PREVIEW_TIMEOUT_S:g} s.")
        except exceptions.TaskError as error:
            return ValueFacts(note=_first_line(f"No preview: {error.cause_type}: {error.message}"))

    def _submitter(self, client: Client) -> Callable[[ObjectRef], ObjectRef]:
        if self._submit is None or self._submit[0] is not client:
            from ...objstore.serialization import code_object

            function = client.put(code_object("function", "preview", summarize))
            self._submit = (
                client,
                client.submitter(function, client.resource_class({}).shape, max_retries=0, hidden=True),
            )
        return self._submit[1]


def _row(recorder: Recorder | None, ref: ObjectRef) -> dict[str, Any]:
    """What the graph knows of a ref's task; {} if nothing."""
    if recorder is None or recorder.session.client is not ref.client:
        return {}

    def look(graph: Graph) -> dict[str, Any]:
        number = graph.row_of(ref.creator)
        return describe(graph, number) if number >= 0 else {}

    with recorder.lock:
        known = look(recorder.graph)
    return known or recorder.look(look)  # without a front end it is some events behind


def row_of(recorder: Recorder, number: int) -> dict[str, Any]:
    """A row of the graph in words."""
    return recorder.look(lambda graph: describe(graph, number))


def state_of(ref: ObjectRef) -> str:
    """One of the states of `html.STATES`."""
    if ref.client.closed:
        return "gone"
    state = ref.client.info(ref)["state"]
    return state if state in STATES else "queued"


def with_value(facts: CardFacts, value: ValueFacts | None) -> CardFacts:
    """The facts with what was found out later."""
    if value is None:
        return facts
    return replace(facts, preview=value.preview, error=value.error, traceback=value.traceback, note=value.note)


def bundle_of(facts: CardFacts) -> Bundle:
    """The card in every form."""
    return {"text/plain": card_text(facts), "text/html": card_html(facts)}


def _bundle_on(card: _Live) -> Bundle:
    """What a card shows where it stands.

    The card of a cell's result leaves out what the cell has printed there; the card of None is empty. Where the card
    alone has what the cell has printed, it has that, and no None.
    """
    if not card.run:
        return bundle_of(card.facts)
    client = card.ref.client
    is_none = card.value is not None and not client.closed and client.info(card.ref)["encoding"] == "None"
    if card.tells_text:
        return bundle_of(replace(card.facts, preview=None) if is_none else card.facts)
    return {"text/plain": "", "text/html": ""} if is_none else bundle_of(replace(card.facts, output=""))


def data_of(facts: CardFacts) -> dict[str, Any]:
    """The facts as JSON-able data; pictures stay in the HTML."""
    data = asdict(facts)
    if data["preview"]:
        data["preview"] = {name: value for name, value in data["preview"].items() if name != "image"}
    return data


def _first_line(text: str) -> str:
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= 300 else line[:299] + "…"
