"""An actor's card as HTML and as text. Pure; it escapes what is foreign as `html` does for the card of a future."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from ...text import in_one_line
from .html import failure, frame, head, to_type
from .i18n import ENGLISH, Words, readers


@dataclass(frozen=True)
class ActorFacts:
    """What is known of an actor.

    Attributes
    ----------
    state : str
        pending, alive, restarting, dead or gone.
    why : str
        What it waits for, or what it has died of.
    error, traceback : str
        Of its constructor: one line, and the remote traceback.
    pid, node : int, str
        Of its worker; `node` is "" where there is only this machine, and of another one `pid` is 0.
    queued, running, done : int
        Calls; `done` is None where nothing records them.
    restarts, restarts_left : int
        -1 left: any number.
    resources : str
        What it holds, in words; "" for nothing.
    variable : str
        The notebook's, that holds the handle; "" if none does by itself.
    is_meant : bool
        Its death was intended, and is no failure.
    """

    class_name: str
    state: str
    name: str = ""
    why: str = ""
    error: str = ""
    traceback: str = ""
    cell: str = ""
    node: str = ""
    pid: int = 0
    queued: int = 0
    running: int = 0
    done: int | None = None
    restarts: int = 0
    restarts_left: int = 0
    resources: str = ""
    detached: bool = False
    variable: str = ""
    is_meant: bool = False


# state -> (sign, colour), as of futures
ACTOR_STATES = {
    "pending": ("○", "#8a8f98"),
    "alive": ("●", "#22a06b"),
    "restarting": ("↻", "#b58100"),
    "dead": ("✕", "#e5484d"),
    "gone": ("–", "#8a8f98"),
}


def actor_card_html(facts: ActorFacts, words: Words | None = None) -> str:
    """The card, in the reader's language."""
    words = words or readers()
    sign, colour = ("■", "#8a8f98") if facts.is_meant else ACTOR_STATES[facts.state]
    first = head(sign, colour, f"{words.say('actor')} ", _name(facts), _state(facts.state, words), _origin(facts))
    return frame(
        _label(facts, words),
        "".join(
            (
                first,
                _faint(facts.why),
                _faint(_calls(facts, words)),
                _faint(_life(facts, words)),
                failure(facts.error, facts.traceback),
                to_type(_to_type(facts)),
            )
        ),
    )


def actor_card_text(facts: ActorFacts) -> str:
    """The card for terminals."""
    lines = [
        " · ".join(filter(None, (_label(facts, ENGLISH), _origin(facts)))),
        facts.why,
        _calls(facts, ENGLISH),
        _life(facts, ENGLISH),
        in_one_line(facts.error, 1000),
    ]
    return "\n".join(filter(None, lines))


def _faint(text: str) -> str:
    return f'<div style="opacity:.62">{escape(text)}</div>' if text else ""


def _name(facts: ActorFacts) -> str:
    return f"{in_one_line(facts.class_name)}{f' {in_one_line(facts.name)!r}' if facts.name else ''}"


def _label(facts: ActorFacts, words: Words) -> str:
    return f"{words.say('actor')} {_name(facts)}: {_state(facts.state, words)}"


def _state(state: str, words: Words) -> str:
    return {
        "pending": words.say("pending"),
        "alive": words.say("alive"),
        "restarting": words.say("restarting"),
        "dead": words.say("dead"),
        "gone": words.say("its session has ended"),
    }[state]


def _origin(facts: ActorFacts) -> str:
    return " · ".join(filter(None, (facts.cell, in_one_line(facts.node), f"pid {facts.pid}" if facts.pid else "")))


def _calls(facts: ActorFacts, words: Words) -> str:
    if facts.state == "gone" or not (facts.queued or facts.running or facts.done):
        return ""
    done = [words.count("%2 call done", "%2 calls done", facts.done)] if facts.done is not None else []
    return ", ".join(
        [
            *done,
            *([words.say("%1 running", f"{facts.running:,}")] if facts.running else []),
            *([words.say("%1 queued", f"{facts.queued:,}")] if facts.queued else []),
        ]
    )


def _life(facts: ActorFacts, words: Words) -> str:
    left = (
        words.say("restarts without end")
        if facts.restarts_left < 0
        else (words.count("%2 restart left", "%2 restarts left", facts.restarts_left) if facts.restarts_left else "")
    )
    return " · ".join(
        filter(
            None,
            (
                words.count("restarted once", "restarted %2 times", facts.restarts) if facts.restarts else "",
                left if facts.state not in ("dead", "gone") else "",
                facts.resources,
                words.say("detached") if facts.detached else "",
            ),
        )
    )


def _to_type(facts: ActorFacts) -> list[str]:
    if not facts.variable or facts.state in ("dead", "gone"):
        return []
    return [f"%inspect {facts.variable}", f"cellmesh.kill({facts.variable})"]
