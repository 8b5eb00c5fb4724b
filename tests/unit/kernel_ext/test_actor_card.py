"""Cards of actors: every fact is there, nothing foreign gets through as HTML, and the HTML is well-formed."""

from __future__ import annotations

import pytest
from cellmesh.kernel_ext.cards.actor_html import ACTOR_STATES, ActorFacts, actor_card_html, actor_card_text
from cellmesh.kernel_ext.cards.i18n import Words, catalogue_of
from support.card_reader import EVIL, read


def facts(**more: object) -> ActorFacts:
    known = {
        "class_name": "Counter",
        "state": "alive",
        "name": "main",
        "cell": "In [3]",
        "node": "elm",
        "pid": 77,
        "queued": 2,
        "running": 1,
        "done": 1200,
        "restarts": 1,
        "restarts_left": 3,
        "resources": "CPU: 1",
        "detached": True,
        "variable": "c",
    }
    return ActorFacts(**{**known, **more})


def test_a_card_says_what_is_known() -> None:
    for text in (read(actor_card_html(facts())), actor_card_text(facts())):
        for expected in (
            "actor",
            "Counter 'main'",
            "alive",
            "In [3] · elm · pid 77",
            "1,200 calls done, 1 running, 2 queued",
            "restarted once · 3 restarts left · CPU: 1 · detached",
        ):
            assert expected in text
    assert "%inspect c" in read(actor_card_html(facts())) and "cellmesh.kill(c)" in read(actor_card_html(facts()))
    assert "restarts without end" in actor_card_text(facts(restarts_left=-1))


def test_who_is_dead_says_why_and_offers_nothing() -> None:
    dead = facts(
        state="dead",
        why="its constructor failed",
        error="ValueError: no",
        traceback="Traceback ...",
        queued=0,
        running=0,
    )
    html = actor_card_html(dead)
    assert (
        "its constructor failed" in read(html)
        and "<details" in html
        and "kill(" not in html
        and "restarts left" not in html
    )
    assert "✕" in html and "■" in actor_card_html(facts(state="dead", why="ended by kill()", is_meant=True)), (
        "no failure"
    )
    assert "its constructor failed\n" in actor_card_text(dead) and actor_card_text(dead).endswith("ValueError: no")


@pytest.mark.parametrize("state", ACTOR_STATES)
def test_every_state_has_a_card_that_foreign_text_cannot_leave(state: str) -> None:
    made = facts(
        state=state,
        class_name=EVIL,
        name=EVIL,
        why=EVIL,
        error=EVIL,
        traceback=EVIL,
        cell=EVIL,
        node=EVIL,
        resources=EVIL,
        variable=EVIL,
    )
    html = actor_card_html(made)
    assert read(html) and "<script" not in html and "<img" not in html


@pytest.mark.parametrize(("language", "said"), [("de_DE", "2 wartend"), ("ja", "2 待機中")])
def test_the_card_is_in_the_readers_language(language: str, said: str) -> None:
    assert said in actor_card_html(facts(), Words(catalogue_of(language)))
