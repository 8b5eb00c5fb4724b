"""`cellmesh engine check`: whether a session can have its tasks run by a cluster of another kind."""

from __future__ import annotations

import argparse
import json

from ..submit.flags import OF_SESSIONS, argument_type
from .failures import CommandError
from .sessions import UsageError


def add_engine(parser: argparse.ArgumentParser, as_json: argparse.ArgumentParser) -> None:
    """The commands below `cellmesh engine`."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    text = "connect as a session would, and say which machines, versions and capabilities are there"
    checks = commands.add_parser("check", help=text, description=f"{text.capitalize()}.", parents=[as_json])
    checks.add_argument(
        "address", metavar="ADDRESS", help="as init() takes it: ray:auto, ray://HOST:10001, dask://HOST:PORT"
    )
    written = OF_SESSIONS["engine_options"]
    checks.add_argument(
        *written.spellings("engine_options"),
        metavar=written.metavar,
        type=argument_type(written.parse),
        default={},
        help="as init() takes them",
    )
    checks.set_defaults(run=check)


def check(options: argparse.Namespace) -> int:
    """Connect, and say what is there."""
    from ..engines.addresses import ENGINES, name_of, prefix_of
    from ..engines.connection.connecting import connected
    from ..engines.connection.options import checked
    from ..engines.interface import Engine
    from ..exceptions import EngineError
    from ..scheduler.worker.main import resolve
    from ..text import in_resources

    prefix = prefix_of(options.address)
    if not prefix:
        raise UsageError(f"{options.address!r} is the address of no engine: they begin with {', '.join(ENGINES)}")
    try:
        given = checked(name_of(prefix), options.engine_options)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    engine: Engine = resolve(ENGINES[prefix])()
    try:
        facts = connected(engine, options.address, given, lambda event: None)
        nodes = [{"name": node.name, "resources": dict(node.total)} for node in engine.nodes()]
    except EngineError as error:
        raise CommandError(str(error)) from None
    finally:
        engine.close()
    lacks = list(engine.can.lacks)
    if options.json:
        told = {"engine": facts.name, "versions": dict(facts.versions), "dashboard": facts.dashboard}
        print(json.dumps({**told, "nodes": nodes, "lacks": lacks}))
        return 0
    print(f"{facts.name} takes tasks of this program, and runs what it sends.")
    if facts.versions:
        print("versions:  " + ", ".join(f"{name} {version}" for name, version in facts.versions.items()))
    if facts.dashboard:
        print(f"dashboard: {facts.dashboard}")
    for node in nodes:
        print(f"machine:   {node['name']} ({in_resources(node['resources'])})")
    if lacks:
        print(f"lacks:     {', '.join(lacks)}; a call that needs one raises EngineUnsupportedError")
    return 0
