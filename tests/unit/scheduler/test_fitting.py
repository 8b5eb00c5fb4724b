"""What our senders make of messages their receivers take: of every link, with texts of any length and of no
encoding.
"""

from __future__ import annotations

import typing
from typing import Any

import pytest
from cellmesh.scheduler.cluster import messages as between_machines
from cellmesh.scheduler.ipc import fitting, transport
from cellmesh.scheduler.ipc.messages import (
    MAX_MESSAGE_BYTES,
    MAX_NAME_CHARS,
    MAX_SERIES,
    MAX_TEXT_CHARS,
    FromPeer,
    FromScheduler,
    FromZygote,
    MetricChanges,
    MetricsReply,
    NodeEvent,
    Series,
    StackReply,
    ToZygote,
    WorkerDied,
    WorkerOutput,
)
from cellmesh.scheduler.local_scheduler.metric_sums import Sums
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect
from support.examples import examples

LINKS = (
    FromPeer,
    FromScheduler,
    ToZygote,
    FromZygote,
    between_machines.ToDoor,
    between_machines.FromDoor,
    between_machines.ToHead,
    between_machines.FromHead,
    between_machines.ToPeer,
)
KINDS = [(link, kind) for link in LINKS for kind in (typing.get_args(link) or (link,))]
LONG = "\U0010ffff" * 1_000_000
STRANGE = '\0\x1b[2J\r\n\t"\\ü\u2028\ufeff\ud800\udcff\udfff\U0001f600\U0010ffff'


def texts(most: int | None) -> st.SearchStrategy[str]:
    """Any, and those at the limit, beyond it and of four bytes a letter."""
    around = [n for n in (0, 1, *((most - 1, most, most + 1, 2 * most) if most and most <= MAX_TEXT_CHARS else ()))]
    return st.one_of(
        st.text(st.sampled_from(STRANGE + "ab"), max_size=20),
        st.builds(lambda n, letter: letter * n, st.sampled_from(around), st.sampled_from("a\0\udcff\U0010ffff")),
    )


def values(kind: inspect.Type, depth: int = 0) -> st.SearchStrategy[Any]:
    """What may stand in a field: texts as users make them; of all else what its type allows, the limits first of
    all.
    """
    match kind:
        case inspect.StrType(pattern=None):
            return texts(kind.max_length)
        case inspect.StrType():
            return st.just("tcp://127.0.0.1:5")
        case inspect.IntType():
            least = -1 << 63 if kind.ge is None else kind.ge
            most = (
                (1 << 63) - 1
                if kind.le is None and kind.lt is None
                else kind.le
                if kind.le is not None
                else kind.lt - 1
            )
            return st.sampled_from([least, most]) | st.integers(least, most)
        case inspect.FloatType():
            return st.floats(kind.ge, kind.le, allow_nan=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.BytesType():
            return st.binary(min_size=kind.min_length or 0, max_size=min(kind.max_length or 64, 64))
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.NoneType():
            return st.none()
        case inspect.ListType():
            least = kind.min_length or 0
            return st.lists(
                values(kind.item_type, depth + 1), min_size=least, max_size=max(least, 2 if depth < 3 else 0)
            )
        case inspect.DictType(key_type=inspect.StrType()) if not isinstance(kind.value_type, inspect.StrType):
            return st.dictionaries(
                st.sampled_from(["", "CPU", "é" * MAX_NAME_CHARS]), values(kind.value_type, depth + 1), max_size=2
            )
        case inspect.DictType():
            return st.dictionaries(values(kind.key_type), values(kind.value_type, depth + 1), max_size=2)
        case inspect.UnionType():
            among = kind.types if depth < 3 else [one for one in kind.types if isinstance(one, inspect.NoneType)]
            return st.one_of(*(values(one, depth + 1) for one in among))
        case inspect.StructType():
            return st.builds(kind.cls, **{field.name: values(field.type, depth + 1) for field in kind.fields})
    raise AssertionError(f"nothing is made of {kind}")


@pytest.mark.parametrize("link, kind", KINDS, ids=lambda value: getattr(value, "__name__", ""))
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_what_is_sent_is_read(link: Any, kind: type, data: st.DataObject) -> None:
    message = data.draw(values(inspect.type_info(kind)))
    heard = transport.decode(transport.decoder(link), fitting.encode(message))
    assert heard == fitting.fitting(message)
    assert fitting.fitting(heard) is heard, "it need not be made to fit again"


def test_what_fits_is_sent_as_it_is() -> None:
    message = WorkerOutput(1, 2, "stdout", 3, "ü\0\x1b" * (MAX_TEXT_CHARS // 3), name="n" * MAX_NAME_CHARS)
    assert fitting.fitting(message) is message


def test_it_is_told_how_much_is_left_out() -> None:
    text = fitting.fitting(NodeEvent("cluster", "a" * 100_000)).text
    shown = text.rstrip("]").partition(" [... ")
    assert len(text) <= MAX_TEXT_CHARS and shown[0] == "a" * len(shown[0])
    assert shown[2] == f"{100_000 - len(shown[0]):,} characters left out"


def test_lists_and_what_is_in_them_are_cut_too() -> None:
    died = fitting.fitting(WorkerDied(5, 3, -9, tail=["x" * 50_000] * 50))
    assert len(died.tail) == 20 and all(len(line) <= MAX_TEXT_CHARS and "left out" in line for line in died.tail)
    (change,) = fitting.fitting(MetricChanges([Series("n", "gauge", "d" * 300, {"k" * 300: "\udcff"}, 1.0)])).changes
    assert (
        len(change.description) <= MAX_NAME_CHARS
        and list(change.tags.values()) == ["?"]
        and len(*change.tags) <= MAX_NAME_CHARS
    )


def test_pieces_are_all_of_a_text() -> None:
    text = "".join(map(chr, range(0x4E00, 0x4E00 + 1000))) * 100
    assert "".join(fitting.pieces(text)) == text and max(map(len, fitting.pieces(text))) <= MAX_TEXT_CHARS
    assert list(fitting.pieces("")) == []


@pytest.mark.parametrize(
    "message",
    [
        StackReply(1, LONG),
        WorkerOutput(1, 1, "stdout", 1, LONG),
        NodeEvent("cluster", LONG),
        WorkerDied(5, 3, -9, tail=[LONG] * 50),
    ],
    ids=lambda message: type(message).__name__,
)
def test_what_is_cut_fits_into_a_message(message: Any) -> None:
    assert len(fitting.encode(message)) < MAX_MESSAGE_BYTES


def test_all_metrics_together_fit_into_a_message() -> None:
    sums, n_refused = Sums(), 0
    for i in range(MAX_SERIES):
        tags = {f"k{j}": f"{i:05}" + "\U0010ffff" * 250 for j in range(16)}
        n_refused += sums.add(
            [Series("n", "histogram", "d" * 256, tags, -1.5e300, [1e300 + j for j in range(128)], [1 << 62] * 129)]
        )
    assert 0 < len(sums) == MAX_SERIES - n_refused
    assert len(fitting.encode(MetricsReply(1 << 62, sums.all()))) <= MAX_MESSAGE_BYTES
    assert sums.add([sums.all()[0]]) == 0, "what is known goes on counting"
