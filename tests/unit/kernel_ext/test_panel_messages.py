"""Panel messages: the round trip, what is refused, and the schema that the front end is checked against."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import jsonschema
import msgspec
import numpy as np
import pytest
from cellmesh.kernel_ext import panel_messages as pm
from cellmesh.objstore._core import ACTOR_STATES
from cellmesh.scheduler.ipc.messages import TextStream

SCHEMA_FILE = Path(__file__).resolve().parents[3] / "labextension/src/protocol/schema.json"


def a_message() -> tuple[pm.Delta, pm.Arrays]:
    header = pm.Delta(
        n=3,
        session="ab",
        now=1.5,
        tasks=2,
        functions=[(1, "add")],
        cells=[(4, pm.CellLabel("In [2]", "x"))],
        actors=[(0, pm.ActorLabel("", "Sim", "alive"))],
        workers=[(2, pm.WorkerLabel(99, "busy"))],
        counts=pm.Counts(running=1, finished=1),
        resources=pm.Resources({"CPU": 2.0}, {"CPU": 1.0}),
        store=pm.Store(10, 100, 1),
        new=2,
        updates=1,
        edges=1,
        remote=1,
        calls=1,
    )
    arrays = pm.Arrays(
        np.arange(10),
        np.array([0.5, np.nan]),
        np.array([1]),
        np.array([2]),
        np.array([255]),
        np.array([1.25]),
        np.array([np.nan]),
        np.array([8.0]),
        np.array([0, 1]),
        np.array([1]),
        np.array([1.0, 2.5]),
        np.array([1.0, 1.375]),
    )
    return header, arrays


def test_a_message_survives_the_wire() -> None:
    header, arrays = a_message()
    data, buffers = pm.encode(header, arrays)
    data, buffers = json.loads(json.dumps(data)), [bytes(buffer) for buffer in buffers]
    again, columns = pm.decode(data, buffers)
    assert again == header and data["type"] == "delta" and data["v"] == pm.VERSION
    for spec, column, original in zip(pm.BUFFERS, columns, arrays, strict=True):
        assert column.dtype == np.dtype(spec.dtype)
        np.testing.assert_array_equal(column, original)


def test_the_byte_counts_that_budgets_use_are_those_on_the_wire() -> None:
    header, arrays = a_message()
    _, buffers = pm.encode(header, arrays)
    assert sum(map(len, buffers)) == (
        header.new * pm.BYTES_PER_NEW
        + header.updates * pm.BYTES_PER_UPDATE
        + header.edges * pm.BYTES_PER_EDGE
        + header.remote * pm.BYTES_PER_REMOTE
        + header.calls * pm.BYTES_PER_CALL
    )


def test_empty_arrays_are_empty_buffers() -> None:
    empty = pm.Arrays(*[np.zeros(0)] * len(pm.BUFFERS))
    data, buffers = pm.encode(pm.Snapshot(), empty)
    assert [len(buffer) for buffer in buffers] == [0] * len(pm.BUFFERS)
    assert isinstance(pm.decode(data, buffers)[0], pm.Snapshot)


def test_a_buffer_of_the_wrong_size_is_named() -> None:
    data, buffers = pm.encode(*a_message())
    buffers[3] = b""
    with pytest.raises(ValueError, match="update_state has 0 items, the header says 1"):
        pm.decode(data, buffers)


@pytest.mark.parametrize(
    "request_, expected",
    [
        ({"op": "hello"}, pm.Hello()),
        ({"op": "open", "comm_id": "c"}, pm.Open("c")),
        ({"op": "cancel", "row": 3, "force": True}, pm.Cancel(3, True)),
        ({"op": "cancel", "row": 3}, pm.Cancel(3)),
        ({"op": "fetch", "row": 0, "name": "x", "request": 7}, pm.Fetch(0, "x")),
        ({"op": "logs", "after": 3}, pm.Logs(3)),
        ({"op": "memory"}, pm.Memory()),
        ({"op": "save", "path": "a"}, pm.Save("a")),
    ],
)
def test_requests_are_typed(request_: dict, expected: pm.Request) -> None:
    assert pm.parse_request(request_) == expected


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"op": "explode"},
        {"op": "card"},
        {"op": "card", "row": -1},
        {"op": "card", "row": "1"},
        {"op": "card", "row": 2**40},
        {"op": "open", "comm_id": ""},
        {"op": "open", "comm_id": "x" * 1000},
        {"op": "cancel", "row": 1, "force": "yes"},
        {"op": "logs", "after": -1},
        {"op": "save", "path": ""},
    ],
)
def test_what_is_no_request_is_refused(request_: dict) -> None:
    with pytest.raises(msgspec.ValidationError):
        pm.parse_request(request_)


def test_messages_satisfy_the_exported_schema() -> None:
    schema = pm.schema()
    data = json.loads(json.dumps(pm.encode(*a_message())[0]))
    for instance, name in [
        (data, "Delta"),
        (msgspec.to_builtins(pm.Refusal("KeyError", "no")), "Refusal"),
        (msgspec.to_builtins(pm.HelloReply("1", True, "ab")), "HelloReply"),
    ]:
        jsonschema.validate(instance, {"$defs": schema["$defs"], "$ref": f"#/$defs/{name}"})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**data, "n": -1}, {"$defs": schema["$defs"], "$ref": "#/$defs/Delta"})


def test_named_types_have_the_words_of_the_modules_that_own_them() -> None:
    stream, _ = get_args(pm.Stream)
    assert get_args(stream) == get_args(TextStream)
    line = pm.schema()["$defs"]["LogLine"]["prefixItems"][2]
    assert (line["x-type"], line["enum"]) == ("Stream", sorted(get_args(TextStream)))
    actor = pm.schema()["$defs"]["ActorLabel"]["properties"]["state"]
    assert (actor["x-type"], tuple(actor["enum"])) == ("ActorState", ACTOR_STATES)


def test_the_schema_file_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_text() == pm.schema_text(), (
        "run: python -m cellmesh.kernel_ext.panel_messages > labextension/src/protocol/schema.json"
    )
