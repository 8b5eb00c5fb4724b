"""`runtime_env`: what the processes of a task or actor are given: variables, a folder, modules, a function to run.

The store lets only fresh workers, and those that were made for the same environment, take such a task (`number_of`),
so what is set here is set for good. Tasks inherit the environment of the task that submits them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from ..session.session import Session

KEYS = ("env_vars", "working_dir", "py_modules", "pip", "worker_process_setup_hook")
PACKAGES = "packages"  # what `with_packages` adds: ((path, Package), ...)
NAMESPACE = "namespace"  # of the driver, where processes serve several (`Session.environment`)
TRAVELS, CHANGES = 1, 2  # bits of `number_of`
Environment = dict[str, Any]  # in the form that `normal` gives

_current: Environment = {}  # of this process, for what it submits


# ---------------------------------------------------------------- as users write it
def is_valid(value: Any) -> bool:
    """Whether `value` is a runtime_env: of those keys only, each with what it takes."""
    return (
        isinstance(value, Mapping)
        and set(value) <= set(KEYS)
        and has_types(value)
        and all(part is None or _PARTS[key].is_right(part) for key, part in value.items())
    )


def not_there(value: Any) -> str:
    """The first path in it of which there is nothing here, as words to put behind an error; "" if that is not what is
    wrong.
    """
    if not isinstance(value, Mapping):
        return ""
    modules = value.get("py_modules")
    paths = [value.get("working_dir"), value.get("pip"), *(modules if isinstance(modules, (list, tuple)) else ())]
    missing = next((path for path in paths if isinstance(path, (str, os.PathLike)) and not os.path.exists(path)), None)
    return f". There is no {os.fspath(missing)!r} on this machine" if missing is not None else ""


class _Part(NamedTuple):
    """What one key takes. `is_typed`: values of the right type; `is_right`: which of those."""

    is_typed: Callable[[Any], bool]
    is_right: Callable[[Any], bool]


def _is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(value, (str, os.PathLike))


def _is_list(value: object, is_item: Callable[[Any], bool]) -> bool:
    return isinstance(value, (list, tuple)) and all(map(is_item, value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_requirement(line: str) -> bool:
    return bool(line.strip()) and "\n" not in line


def _exists(module: Any) -> bool:
    path = vars(module).get("__file__") if isinstance(module, ModuleType) else module
    return path is not None and os.path.exists(path)


_PARTS = {
    "env_vars": _Part(
        lambda value: isinstance(value, Mapping) and all(map(_is_text, (*value, *value.values()))),
        lambda value: all(value),
    ),
    "working_dir": _Part(_is_path, os.path.isdir),
    "py_modules": _Part(
        lambda value: _is_list(value, lambda module: isinstance(module, ModuleType) or _is_path(module)),
        lambda value: all(map(_exists, value)),
    ),
    "pip": _Part(
        lambda value: _is_path(value) or _is_list(value, _is_text),
        lambda value: os.path.isfile(value) if _is_path(value) else all(map(_is_requirement, value)),
    ),
    "worker_process_setup_hook": _Part(
        lambda value: callable(value) or _is_text(value), lambda value: callable(value) or "." in value
    ),
}


def has_types(value: Mapping[str, Any]) -> bool:
    """Whether each part is of a type that its key takes, right or wrong: a wrong type is another kind of mistake."""
    return all(part is None or key not in _PARTS or _PARTS[key].is_typed(part) for key, part in value.items())


ALLOWED = (
    "a dict with some of the keys env_vars (names to strings), working_dir (a folder of this machine), "
    "py_modules (paths of modules or packages, or modules), pip (a list of requirements, or the path of a file of "
    "them), "
    'worker_process_setup_hook (a function, or "module.function"). For conda, another Python or containers prepare '
    "the environment "
    "that the driver runs in"
)


def normal(value: Mapping[str, Any]) -> Environment:
    """A valid runtime_env with absolute paths and without what is empty."""
    found: Environment = {}
    if value.get("env_vars"):
        found["env_vars"] = dict(value["env_vars"])
    if value.get("working_dir"):
        found["working_dir"] = os.path.abspath(value["working_dir"])
    if value.get("py_modules"):
        found["py_modules"] = [_path_of(module) for module in value["py_modules"]]
    if value.get("pip"):
        from .pip_environment import lines_of

        found["pip"] = list(lines_of(value["pip"]))
    if value.get("worker_process_setup_hook"):
        hook = value["worker_process_setup_hook"]
        from ..objstore.serialization import dump_code

        found["worker_process_setup_hook"] = hook if isinstance(hook, (str, bytes)) else dump_code(hook)[0]
    return found


def _path_of(module: Any) -> str:
    """The file of a module, or the folder of a package."""
    path = os.path.abspath(vars(module)["__file__"] if isinstance(module, ModuleType) else module)
    return os.path.dirname(path) if os.path.basename(path) == "__init__.py" else path


def folders_of(environment: Environment) -> list[str]:
    """The parts that only the driver's machine has."""
    files = []
    if "pip" in environment:
        from .pip_environment import local_files

        files = local_files(environment["pip"])
    return [
        *([environment["working_dir"]] if "working_dir" in environment else []),
        *environment.get("py_modules", ()),
        *files,
    ]


def with_packages(session: Session, environment: Environment) -> Environment:
    """The same with its folders packed for other machines."""
    folders = folders_of(environment)
    if not folders:
        return environment
    from .packages import package_of

    inherited = dict(environment.get(PACKAGES, ()))
    return {
        **environment,
        PACKAGES: tuple(
            sorted((path, inherited.get(path) or tuple(package_of(session, path))) for path in set(folders))
        ),
    }


def effective(options: Mapping[str, Any], default: Environment) -> Environment:
    """What a task with these options runs in: its own keys before those it inherits; variables are merged."""
    own, inherited = normal(options.get("runtime_env") or {}), _current or default
    variables = {**inherited.get("env_vars", {}), **own.get("env_vars", {})}
    return {**inherited, **own, **({"env_vars": variables} if variables else {})}


def key_of(environment: Environment) -> tuple[Any, ...]:
    """Equal for equal environments; for caches, and to make the environment again: `dict(key)`."""
    return tuple(
        (
            name,
            tuple(sorted(part.items())) if isinstance(part, dict) else tuple(part) if isinstance(part, list) else part,
        )
        for name, part in sorted(environment.items())
    )


def number_of(environment: Environment, in_cluster: bool) -> int:
    """What the store knows an environment by; 0 for none. `TRAVELS`: other machines can make it, too, as its folders
    travel, or it has none; `CHANGES`: it changes its process, and is not a namespace alone.
    """
    if not environment:
        return 0
    environment = {name: part for name, part in environment.items() if name != PACKAGES}
    import hashlib  # 4 ms that only environments are worth

    digest = hashlib.blake2b(repr(key_of(environment)).encode(), digest_size=4).digest()
    travels = in_cluster or not folders_of(environment)
    changes = not environment.keys().isdisjoint(KEYS)
    return (int.from_bytes(digest, "little") & ~3 or 4) | travels * TRAVELS | changes * CHANGES


# ---------------------------------------------------------------- in a worker
def namespace_of_driver(default: str) -> str:
    """Where the driver for which this process works looks up names; the session's default if that is all it serves."""
    return _current.get(NAMESPACE, default)


def enter(key: tuple[Any, ...], session_of: Callable[[], Session]) -> None:
    """Make this worker one of the environment with that key, for good; harmless when repeated.

    Raises
    ------
    RuntimeEnvSetupError
        A folder has gone, packages could not be installed, or the setup function has raised.
    """
    global _current
    from ..exceptions import RuntimeEnvSetupError
    from ..scheduler.worker import process_state

    environment: Environment = {name: dict(part) if name == "env_vars" else part for name, part in key}
    if environment == _current:
        return
    _current = environment
    try:
        _set_up(environment, session_of)
        process_state.keep()
    except BaseException as error:  # the user's function may raise anything, and the task may be cancelled meanwhile
        _current = {}
        if isinstance(error, RuntimeEnvSetupError) or not isinstance(error, Exception):
            raise
        raise RuntimeEnvSetupError(
            f"the runtime_env of the task could not be set up: {type(error).__name__}: {error}"
        ) from error


def _set_up(environment: Environment, session_of: Callable[[], Session]) -> None:
    from ..scheduler.worker import warm

    variables = environment.get("env_vars", {})
    os.environ.update(variables)
    if not environment.keys().isdisjoint(KEYS):
        warm.forget()
    if (n_threads := variables.get("OMP_NUM_THREADS", "")).isdecimal():
        warm.set_threads(int(n_threads))
    packages = dict(environment.get(PACKAGES, ()))
    if "pip" in environment:
        from . import pip_environment

        pip_environment.enter([_here(line, packages, session_of) for line in environment["pip"]])
    folders = [os.path.dirname(_here(path, packages, session_of)) for path in environment.get("py_modules", ())]
    if folder := environment.get("working_dir"):
        folder = _here(folder, packages, session_of)
        os.chdir(folder)
        folders.insert(0, folder)
    sys.path[:0] = [path for path in dict.fromkeys(folders) if path not in sys.path]
    hook = environment.get("worker_process_setup_hook")
    if isinstance(hook, str):
        module, _, name = hook.rpartition(".")
        from importlib import import_module

        getattr(import_module(module), name)()
    elif hook is not None:
        from ..objstore.serialization import load_code

        load_code(hook)()


def _here(path: str, packages: Mapping[str, Any], session_of: Callable[[], Session]) -> str:
    if path not in packages:
        return path
    from .packages import Package, place_of

    of = session_of()
    return place_of(path, Package(*packages[path]), of.package_dir, of.client.get)
