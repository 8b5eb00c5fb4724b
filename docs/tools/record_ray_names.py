"""Writes tests/compat/ray_names.json: the public names of Ray with their parameters, for docs/tools/ray_names_page.py
and the tests; and tests/compat/rllib_options.json: the options of RLlib's configurations.

    python docs/tools/record_ray_names.py            # in an environment where `import ray` is Ray itself
    python docs/tools/record_ray_names.py train      # in one with fsspec, pyarrow, pydantic and torch, too
    python docs/tools/record_ray_names.py rllib      # in one with gymnasium, dm-tree, lz4, ormsgpack and scipy, too

Public is what a module lists in `__all__`, and, without an underscore before it, what it defines itself: its functions,
classes and submodules, not what it has imported from elsewhere. Of classes the public members are recorded too. Of
Tune and Train, whose modules are many, it is what `__all__` lists; of RLlib, whose classes have hundreds of members,
these names alone.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

FILE = Path(__file__).resolve().parents[2] / "tests" / "compat" / "ray_names.json"
MODULES = ("ray", "ray.util", "ray.exceptions", "ray.runtime_context", "ray.actor")
LISTED = (
    "ray.tune",
    "ray.tune.schedulers",
    "ray.tune.search",
    "ray.tune.search.optuna",
    "ray.tune.stopper",
    "ray.tune.logger",
)

OF_TRAIN = ("ray.train", "ray.train.torch")
OF_RLLIB = ("ray.rllib", "ray.rllib.algorithms")
OPTIONS = FILE.with_name("rllib_options.json")
METHODS = (
    *("api_stack", "checkpointing", "debugging", "env_runners", "environment", "evaluation", "fault_tolerance"),
    *("framework", "learners", "reporting", "resources", "rl_module", "training"),
)


def main() -> None:
    import ray

    if sys.argv[1:] == ["rllib"]:
        record_rllib()
        return
    kept = json.loads(FILE.read_text())["modules"] if FILE.exists() else {}
    modules = OF_TRAIN if sys.argv[1:] == ["train"] else (*MODULES, *LISTED)
    found = {module: names_of(importlib.import_module(module)) for module in modules}
    found = {module: found.get(module, kept.get(module)) for module in (*MODULES, *LISTED, *OF_TRAIN, *OF_RLLIB)}
    FILE.write_text(json.dumps({"version": ray.__version__, "modules": found}, indent=1) + "\n")


def record_rllib() -> None:
    """The names of RLlib into the record that is there, and its options."""
    from ray.rllib.algorithms import DQNConfig, PPOConfig
    from ray.rllib.algorithms.algorithm_config import NotProvided

    whole = json.loads(FILE.read_text())
    for name in OF_RLLIB:
        module = importlib.import_module(name)
        whole["modules"][name] = {
            one: {"kind": "class" if inspect.isclass(getattr(module, one)) else "value"} for one in module.__all__
        }
    FILE.write_text(json.dumps(whole, indent=1) + "\n")
    found: dict[str, Any] = {}
    for config in (PPOConfig, DQNConfig):
        named = [p for m in METHODS for p in inspect.signature(getattr(config, m)).parameters.values()]
        named += inspect.signature(config.__mro__[1].training).parameters.values()
        made = config()
        found[config.__name__] = {
            p.name: plain(getattr(made, p.name, None)) for p in named if p.default in (NotProvided, None)
        }
    OPTIONS.write_text(json.dumps(found, indent=1) + "\n")


def plain(value: Any) -> Any:
    """A default that JSON has; else None."""
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return None


def names_of(module: ModuleType) -> dict[str, Any]:
    """What is recorded of the names of a module."""
    listed = set(getattr(module, "__all__", ()))
    own = set() if module.__name__ in (*LISTED, *OF_TRAIN) else {name for name in dir(module) if is_own(module, name)}
    return {name: look(module, name) for name in sorted(listed | own)}


def is_own(module: ModuleType, name: str) -> bool:
    """Whether a name that is not in `__all__` is one that the module defines."""
    value = vars(module).get(name)
    home = value.__name__ if isinstance(value, ModuleType) else f"{getattr(value, '__module__', '')}.{name}"
    return home == f"{module.__name__}.{name}" and not name.startswith("_") and not isinstance(value, TypeVar)


def look(module: ModuleType, name: str) -> dict[str, Any]:
    """What is recorded of one name."""
    try:
        value = getattr(module, name)
    except (
        AttributeError,
        ImportError,
        RuntimeError,
    ):  # what needs more packages, or was removed and is in `__all__` still
        return {"kind": "absent"}
    if isinstance(value, ModuleType):
        return {"kind": "module"}
    if inspect.isclass(value):
        return {"kind": "class", "parameters": parameters(value), "members": members(value)}
    return {"kind": "function", "parameters": parameters(value)} if callable(value) else {"kind": "value"}


def members(cls: type) -> dict[str, Any]:
    """The public members of a class: the parameters of each method, null for others."""
    return {
        name: parameters(getattr(cls, name))
        if callable(inspect.getattr_static(cls, name)) or inspect.ismethod(getattr(cls, name))
        else None
        for name in dir(cls)
        if not name.startswith("_") and not any(hasattr(base, name) for base in (Exception, OSError, str, dict))
    }


def parameters(of: Any) -> list[str] | None:
    """As a signature has them: "a", "b=" with a default, "*" or "*args", "**kwargs"; null where Python cannot tell."""
    try:
        signature = inspect.signature(of)
    except (TypeError, ValueError):
        return None
    bare = signature.replace(
        parameters=[
            p.replace(annotation=p.empty, default=p.empty) for p in signature.parameters.values() if p.name != "self"
        ],
        return_annotation=signature.empty,
    )
    optional = {p.name for p in signature.parameters.values() if p.default is not p.empty}
    return [f"{part}=" if part in optional else part for part in str(bare)[1:-1].split(", ") if part]


if __name__ == "__main__":
    main()
