"""Spaces of grids, constants and functions, for both libraries: `tune` is either's module."""

from __future__ import annotations

from typing import Any


def spaces(tune: Any) -> dict[str, dict[str, Any]]:
    grid = tune.grid_search
    return {
        "no parameter": {},
        "a constant": {"a": 1, "b": {"c": [1, 2]}},
        "one": {"a": grid([3, 1, 2])},
        "two, the later one first by name": {"b": grid([1, 2, 3]), "a": grid(["x", "y"])},
        "three": {"c": grid([1, 2]), "a": grid([3, 4]), "b": grid([5, 6])},
        "nested": {"b": {"z": grid([1, 2])}, "a": {"y": grid([1, 2]), "x": grid([3, 4])}},
        "in lists": {"b": [grid([1, 2]), 5, [grid([3, 4])]], "a": grid([0, 9])},
        "eleven in a list": {"a": [grid([i, -i]) if i in (2, 10) else i for i in range(11)]},
        "as JSON has it": {"a": {"grid_search": [1, 2]}, "b": {"c": {"grid_search": [3, 4]}}},
        "inside a value": {"a": grid([{"x": grid([1, 2])}, 5]), "b": grid([10, 20])},
        "inside values": {"a": grid([{"x": grid([1, 2])}, {"y": grid([3, 4]), "x": grid([5, 6])}]), "b": 1},
        "lists as values": {"a": grid([[1, 2], [3]]), "b": grid([{"c": 1}, None])},
        "what depends on a grid": {
            "a": tune.sample_from(lambda spec: spec.config.b * 2),
            "b": grid([4, 5]),
            "c": tune.sample_from(lambda spec: spec.config.a + 1),
        },
    }
