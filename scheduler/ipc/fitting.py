"""Fits messages to their types, so that the receiver accepts them: texts of Unicode, no longer than allowed.

What a user's program prints, raises, or calls things may be of any length and hold lone surrogates (bytes of file
names, say), and a receiver refuses the whole message for it. So every message is looked at once, where it is encoded,
by the limits that its type declares. What a message is about is not changed by that: names that identify something are
checked where users give them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

from .messages import MAX_TEXT_CHARS

NOTE_CHARS = 48  # more than the note about what was left out takes
Fit = Callable[[Any], Any]

_encoder = msgspec.msgpack.Encoder()


def encode(message: Any) -> bytes:
    """The bytes of a message, with texts that its receiver takes."""
    return _encoder.encode(fitting(message))


def fitting(message: Any) -> Any:
    """The same message if its texts are taken as they are, otherwise one with texts that are."""
    fit = _fit_of_struct(message.__class__)
    return message if fit is None else fit(message)


def pieces(text: str) -> Iterator[str]:
    """A text of any length as several that each fit into a message."""
    for start in range(0, len(text), MAX_TEXT_CHARS):
        yield text[start : start + MAX_TEXT_CHARS]


def fitting_text(text: str, most: int | None = None) -> str:
    """What can be encoded, of at most that many characters; the text says how many were left out."""
    if most is not None and len(text) > most:
        kept = max(0, most - NOTE_CHARS)
        text = f"{text[:kept]} [... {len(text) - kept:,} characters left out]"[:most]
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()  # of the same length
    return text


@functools.cache
def _fit_of_struct(kind: type[Any]) -> Fit | None:
    """A function that fits the texts of a struct; None: it has none."""
    return _fit(inspect.type_info(kind), ())


def _fit(kind: inspect.Type, within: tuple[type, ...]) -> Fit | None:
    match kind:
        case inspect.StrType(max_length=most):
            return lambda text: fitting_text(text, most)
        case inspect.ListType(item_type=item, max_length=most):
            return _fit_list(_fit(item, within), most)
        case inspect.DictType(key_type=inspect.StrType(max_length=most), value_type=value, max_length=n):
            # Keys alone identify something: resources, of which there may be very many in a message.
            return _fit_dict(most, in_value, n) if (in_value := _fit(value, within)) else None
        case inspect.UnionType(types=types) if (
            any(isinstance(one, inspect.NoneType) for one in types) and len(types) == 2
        ):
            of = next(filter(None, (_fit(one, within) for one in types)), None)
            return of and (lambda value: None if value is None else of(value))
        case inspect.StructType(cls=cls) if cls not in within:
            of_fields = {field.name: fit for field in kind.fields if (fit := _fit(field.type, (*within, cls)))}
            return _fit_fields(of_fields) if of_fields else None
        case _:
            return None


def _fit_list(of_item: Fit | None, most: int | None) -> Fit | None:
    return of_item and (lambda items: [of_item(item) for item in items[:most]])


def _fit_dict(most: int | None, of_value: Fit, n: int | None) -> Fit:
    return lambda items: {fitting_text(key, most): of_value(value) for key, value in list(items.items())[:n]}


def _fit_fields(of_fields: dict[str, Fit]) -> Fit:
    def fit(struct: Any) -> Any:
        changed = {}
        for name, of in of_fields.items():
            value = getattr(struct, name)
            if (fitted := of(value)) is not value and fitted != value:
                changed[name] = fitted
        return msgspec.structs.replace(struct, **changed) if changed else struct

    return fit
