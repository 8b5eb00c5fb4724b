"""The arguments of `init`: checked, filled in with what the machine has, compared with the session that runs."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping

from ..engines import addresses as engines
from ..objstore._core import MAX_SLOTS
from ..scheduler.node import private_dir
from ..scheduler.system import capacity
from ..submit.option_values import is_number, is_whole
from ..text import closest

TYPE_CHECKING = False  # see `init`, which imports this module
if TYPE_CHECKING:
    from typing import Any, TypedDict

    from ..scheduler.ipc.messages import ClusterConfig, EngineConfig
    from ..session.session import Config

    class TableSizes(TypedDict):
        max_objects: int
        max_tasks: int


LEAST_STORE_BYTES = 1 << 20
MOST_STORE_BYTES = 1 << 45
MOST_BYTES = 1 << 62
MOST_LETTERS = 200
MOST_LABELS = 60  # a message has room for 64, and some are ours
LABELS_ALLOWED = (
    f"a dict of names to texts of at most {MOST_LETTERS} letters, at most {MOST_LABELS} of them, such as {{'zone': "
    "'eu'}; no name may begin with 'cellmesh.'"
)
LEAST_SLOTS = 1000
ADDRESS_VARIABLE = "CELLMESH_ADDRESS"
ADDRESS_ALLOWED = (
    "a string that is not empty, or a Dask cluster whose scheduler has an address that begins with tcp:// or tls://"
)
CLUSTER_PREFIX = "tcp://"
# Arguments of ray.init() that programs are full of and that have no meaning here.
WITHOUT_MEANING = {
    "include_dashboard",
    "dashboard_host",
    "dashboard_port",
    "configure_logging",
    "logging_level",
    "logging_format",
    "log_level",
    "local_mode",
    "_temp_dir",
    "_memory",
    "_system_config",
    "_node_ip_address",
    "job_config",
}


def checked_arguments(arguments: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments of `init` that were given.

    Raises
    ------
    UnknownArgumentError
        For a keyword that `init` does not have.
    ValueError
        For a value that an argument does not take.
    """
    for name in others:
        if name not in WITHOUT_MEANING:
            raise _unknown(name, arguments)
        from ..text import warn_user

        warn_user(f"init({name}=...) has no meaning in cellmesh and is ignored", UserWarning)
    given = {name: value for name, value in arguments.items() if value is not None}
    if "address" in given:
        given["address"] = engines.address_of(given["address"])
    for name, value in given.items():
        allowed = _refusal(name, value)
        if allowed:
            raise ValueError(f"init({name}={value!r}): must be {allowed}")
    return given


def _unknown(name: str, arguments: Mapping[str, Any]) -> Exception:
    from ..exceptions import UnknownArgumentError
    from ..submit import flags

    close = flags.long_form(name, flags.OF_SESSIONS) or closest(name, arguments)
    hint = f"did you mean {close!r}? " if close else ""
    return UnknownArgumentError(
        f"init() has no argument {name!r}: {hint}It takes {', '.join(arguments)}, ignore_reinit_error"
    )


def _refusal(name: str, value: Any) -> str:
    """What the argument must be, if it is not."""
    if name in ("num_cpus", "num_gpus", "memory"):
        return "" if _is_amount(value) else "a number >= 0"
    if name == "object_store_memory":
        fits = _is_amount(value) and LEAST_STORE_BYTES <= value <= MOST_STORE_BYTES
        return "" if fits else f"a number of bytes, {LEAST_STORE_BYTES:,} to {MOST_STORE_BYTES:,}"
    if name in ("max_objects", "max_tasks"):
        fits = is_whole(value) and LEAST_SLOTS <= value <= MAX_SLOTS
        return "" if fits else f"a whole number, {LEAST_SLOTS:,} to {MAX_SLOTS:,}"
    if name == "resources":
        from ..text import is_name

        fits = (
            isinstance(value, Mapping)
            and all(map(_is_amount, value.values()))
            and all(is_name(k) and k not in ("CPU", "GPU", "memory") for k in value)
        )
        return "" if fits else "a dict of names to amounts >= 0; for CPU, GPU, memory use num_cpus, num_gpus, memory"
    if name == "labels":
        return "" if are_labels(value) else LABELS_ALLOWED
    if name == "engine_options":
        return "" if isinstance(value, Mapping) else "a dict of options by name, such as {'ship': True}"
    if name == "offload_limit":
        return "" if _is_amount(value) else "a number of bytes >= 0"
    if name in ("log_dir", "offload_dir"):
        return (
            ""
            if isinstance(value, str | os.PathLike) and _is_path(os.fspath(value))
            else "the path of a folder, as text"
        )
    if name == "address":
        return "" if isinstance(value, str) and value else ADDRESS_ALLOWED
    if name == "namespace":
        from ..text import NAME_ALLOWED, is_name

        return "" if is_name(value) else NAME_ALLOWED
    if name == "runtime_env":
        from ..environment import runtime_env

        return "" if runtime_env.is_valid(value) else runtime_env.ALLOWED + runtime_env.not_there(value)
    return "" if isinstance(value, bool) else "True or False"  # log_to_driver


def _is_path(path: str | bytes) -> bool:
    from ..text import is_unicode

    return isinstance(path, str) and bool(path) and is_unicode(path)


def _is_amount(value: Any) -> bool:
    return is_number(value) and math.isfinite(value) and value >= 0


def are_labels(value: Any) -> bool:
    """Whether a node can have these."""
    from ..text import is_unicode

    return (
        isinstance(value, Mapping)
        and all(
            isinstance(text, str) and len(text) <= MOST_LETTERS and is_unicode(text)
            for pair in value.items()
            for text in pair
        )
        and len(value) <= MOST_LABELS
        and all(name and not name.startswith("cellmesh.") for name in value)
    )


def is_local(given: Mapping[str, Any]) -> bool:
    """Whether a session is to be started on this machine, not one of this machine joined."""
    return _asked_address(given) == "local" or bool(asked_cluster(given))


def asked_cluster(given: Mapping[str, Any]) -> str:
    """The address of the cluster that the session is to take part in, or of the engine that it runs on; "" for
    none."""
    asked = _asked_address(given)
    return asked if asked.startswith(CLUSTER_PREFIX) or engines.prefix_of(asked) else ""


def _asked_address(given: Mapping[str, Any]) -> str:
    return given.get("address") or os.environ.get(ADDRESS_VARIABLE) or "local"  # an empty variable says nothing


def _asked_by(given: Mapping[str, Any]) -> str:
    """Where an address comes from, for errors: who has set a variable may have forgotten it."""
    return (
        f"init(address={given['address']!r})"
        if "address" in given
        else f"{ADDRESS_VARIABLE}={_asked_address(given)!r} in the environment"
    )


def store_bytes(given: Mapping[str, Any]) -> int:
    """How large the object store is to be."""
    return int(given.get("object_store_memory", capacity.default_store_bytes()))


def table_sizes(given: Mapping[str, Any]) -> TableSizes:
    """How many objects and unfinished tasks there can be."""
    from ..scheduler.node.launch import DEFAULT_MAX_OBJECTS, DEFAULT_MAX_TASKS

    return {
        "max_objects": int(given.get("max_objects", DEFAULT_MAX_OBJECTS)),
        "max_tasks": int(given.get("max_tasks", DEFAULT_MAX_TASKS)),
    }


def make_config(given: Mapping[str, Any]) -> Config:
    """What to start a session with."""
    from ..environment import runtime_env
    from ..session.session import Config

    address, namespace = _asked_address(given), given.get("namespace", f"anonymous-{os.urandom(6).hex()}")
    if not is_local(given):
        if hint := _as_cluster(address):
            raise ValueError(f"{_asked_by(given)}: a cluster's address begins with {CLUSTER_PREFIX!r}: {hint}")
        if refused := sorted(set(given) - {"address", "namespace", "log_to_driver", "runtime_env"}):
            raise ValueError(
                f"{_asked_by(given)} joins a session, which has its resources already: leave out "
                f'{", ".join(refused)}, or use address="local" for a session of your own'
            )
        return Config(
            {},
            0,
            namespace,
            given.get("log_to_driver", True),
            _address(address, _asked_by(given)),
            runtime_env=runtime_env.normal(given.get("runtime_env", {})),
        )
    store, engine = store_bytes(given), engines.prefix_of(address)
    resources = {
        "CPU": float(given.get("num_cpus", 0 if engine else capacity.usable_cpus())),
        "GPU": float(given.get("num_gpus", 0 if engine else capacity.usable_gpus())),
        "memory": float(given.get("memory", max(0, capacity.usable_memory() - store))),
        **{name: float(amount) for name, amount in given.get("resources", {}).items()},
    }
    resources = {name: amount for name, amount in resources.items() if amount}
    folders = {name: os.path.abspath(given[name]) for name in ("log_dir", "offload_dir") if name in given}
    for name, folder in folders.items():
        try:
            private_dir.make_with_parents(folder)  # what tasks print is nobody else's business
        except OSError as error:
            raise OSError(
                error.errno, f"init({name}={given[name]!r}): the folder cannot be made: {error.strerror}", folder
            ) from None
    limit = min(int(given["offload_limit"]), MOST_BYTES) if "offload_limit" in given else None
    cluster, labels = asked_cluster(given), dict(given.get("labels", {}))
    if labels and (engine or not cluster):
        raise ValueError(
            f"init(labels={labels!r}): a node of a cluster has labels, and this session would be in none: give its "
            "head's address, "
            f'as in address="{CLUSTER_PREFIX}HOST:PORT", or leave them out'
        )
    options = given.get("engine_options", {})
    if options and not engine:
        raise ValueError(
            f"init(engine_options={options!r}): this session would have no engine: give its address, as in "
            f'address="ray:auto", or leave them out'
        )
    return Config(
        resources,
        store,
        namespace,
        given.get("log_to_driver", True),
        **folders,
        offload_limit=limit,
        **table_sizes(given),
        runtime_env=runtime_env.normal(given.get("runtime_env", {})),
        cluster=cluster,
        labels=labels,
        engine_options=_engine_options(engine, options) if options else {},
        cluster_folder=_cluster_folder(cluster, _asked_by(given)) if cluster and not engine else "",
    )


def _engine_options(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    from ..engines.connection.options import checked

    return checked(engines.name_of(prefix), options)


def _cluster_folder(cluster: str, asked_by: str) -> str:
    """Where this user's keys for a cluster are; joins it if there are none, but a token."""
    from ..exceptions import AuthenticationError, ClusterError
    from ..scheduler.cluster.net import address, client, keys, tokens

    try:
        return client.find_or_join(cluster, client.given_token()).path
    except address.AddressError as error:
        raise ValueError(f"{asked_by}: {error}") from None
    except (client.NotAdmitted, tokens.TokenError, keys.KeyFileError, private_dir.UnsafeDirectory) as error:
        raise AuthenticationError(f"{asked_by}: {error}") from None
    except client.ClusterError as error:
        raise ClusterError(f"{asked_by}: {error}") from None


def cluster_config(config: Config) -> ClusterConfig | None:
    """How the session's agent takes part in the cluster, if there is one."""
    if not config.cluster_folder:
        return None
    from ..scheduler.cluster.net import address
    from ..scheduler.ipc.messages import ClusterConfig

    return ClusterConfig(config.cluster_folder, address.towards(*address.parse(config.cluster)), labels=config.labels)


def engine_config(config: Config) -> EngineConfig | None:
    """Which engine runs the session's tasks, if one does."""
    if not engines.prefix_of(config.cluster):
        return None
    from ..scheduler.ipc.messages import EngineConfig

    return EngineConfig(config.cluster, engines.PROCESS, config.engine_options)


def _as_cluster(address: str) -> str:
    """The cluster's address that "HOST:PORT", "http://HOST:PORT" or the like is meant for, quoted; "" if there is
    none.
    """
    from ..scheduler.cluster.net import address as addresses

    if os.path.exists(address):
        return ""
    try:
        host, port = addresses.parse(address.rpartition("://")[2].rstrip("/"))
    except ValueError:
        return ""
    return repr(CLUSTER_PREFIX + addresses.join(host, port))


def _address(address: str, asked_by: str) -> str:
    if address != "auto":
        if not os.path.exists(address):
            raise ValueError(
                f'{asked_by}: there is no such session. Use "auto" for the youngest one '
                'on this machine, the path of a node.sock as `cellmesh status` lists them, "tcp://HOST:PORT" for a '
                "cluster, or no address for a session of your own"
            )
        return address
    from ..scheduler.node import session_dir

    alive = session_dir.alive()
    if not alive:
        raise ValueError(f"{asked_by}: no session of yours runs on this machine; leave the address out to start one")
    return os.path.join(alive[0], session_dir.SOCKET_NAME)


def home() -> str:
    """What this process runs: a script, or a notebook, or whatever is typed in some folder.

    Who runs it again finds the session again that the earlier process has left.
    """
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.abspath(script) if script else os.environ.get("JPY_SESSION_NAME") or os.getcwd()


def left_note(config: Config) -> bytes:
    """What is found where this process's session is, should it go on without it."""
    from dataclasses import asdict

    from msgspec import msgpack

    return msgpack.encode({"home": os.fsencode(home()), "version": _version(), "config": asdict(config)})


def _version() -> list[Any]:
    """What a session must have been started by for this process to take it over."""
    from dataclasses import fields

    from ..scheduler.ipc.messages import PROTOCOL_VERSION
    from ..session.session import Config

    return [PROTOCOL_VERSION, *(f.name for f in fields(Config))]


def left_session(given: Mapping[str, Any]) -> tuple[str, Config] | None:
    """The address of a session that an earlier run of this notebook or script has left, with what it was started with.

    A session of which something else is asked for is told of, and left alone.
    """
    from ..scheduler.node import session_dir

    is_new = "address" in given and not engines.prefix_of(given["address"])  # who asks for "local" asks for one
    found = session_dir.left() if is_local(given) and not is_new else []
    if not found:
        return None
    from msgspec import msgpack

    from ..session.session import Config

    for folder, data in found:
        note = msgpack.decode(data)
        if note["home"] != os.fsencode(home()):
            continue
        if note["version"] != _version():
            print(
                "cellmesh: an earlier run of this has left a session, where detached actors live, of another version "
                f"of cellmesh, so this session is a new one. `cellmesh stop {session_dir.id_of(folder)}` ends the "
                "other.",
                file=sys.stderr,
            )
            continue
        config = Config(**note["config"])
        if config.cluster != asked_cluster(given):
            continue
        address = os.path.join(folder, session_dir.SOCKET_NAME)
        if other := _difference(config, given):
            print(
                "cellmesh: an earlier run of this has left a session, where detached actors live. It has "
                f"{other[0]}={other[1]!r}, and init() asks for {other[0]}={other[2]!r}, so this session is a new one. "
                f"init({address!r}) joins the other, `cellmesh stop {session_dir.id_of(folder)}` ends it.",
                file=sys.stderr,
            )
            continue
        return address, config
    return None


def compare(config: Config, given: Mapping[str, Any], ignore: bool) -> None:
    """See to it that the session that runs is the one that is asked for.

    Raises
    ------
    AlreadyInitializedError
        Names the first argument that differs.
    """
    found = None if ignore else _difference(config, given)
    if found:
        from ..exceptions import AlreadyInitializedError

        name, has, asked = found
        raise AlreadyInitializedError(
            f"a session with {name}={has!r} runs already, and init() asks for {name}={asked!r}: call "
            "cellmesh.shutdown() first, leave the argument out, or pass ignore_reinit_error=True to keep what "
            "runs"
        )


def _difference(config: Config, given: Mapping[str, Any]) -> tuple[str, Any, Any] | None:
    """The first argument that asks for something else, with what the session has and what is asked for."""
    from ..environment import runtime_env

    has = {
        "address": config.cluster or config.address,
        "num_cpus": config.resources.get("CPU", 0.0),
        "num_gpus": config.resources.get("GPU", 0.0),
        "memory": config.resources.get("memory", 0.0),
        "object_store_memory": config.object_store_memory,
        "namespace": config.namespace,
        "log_to_driver": config.log_to_driver,
        "log_dir": config.log_dir,
        "offload_dir": config.offload_dir,
        "offload_limit": config.offload_limit,
        "max_objects": config.max_objects,
        "max_tasks": config.max_tasks,
        "runtime_env": config.runtime_env,
        "labels": config.labels,
        "engine_options": config.engine_options,
        "resources": {k: v for k, v in config.resources.items() if k not in ("CPU", "GPU", "memory")},
    }
    for name, asked in given.items():
        wanted = runtime_env.normal(asked) if name == "runtime_env" else asked
        if name == "address":
            wanted = (
                asked
                if asked_cluster({"address": asked})
                else ""
                if asked == "local"
                else _address(asked, f"init(address={asked!r})")
            )
        wanted = os.path.abspath(asked) if name in ("log_dir", "offload_dir") else wanted
        if wanted != has[name]:
            return name, has[name], asked
    return None
