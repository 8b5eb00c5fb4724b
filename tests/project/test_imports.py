"""The architecture, checked: who may import whom, and which modules are pure.

Imports inside functions count as those at the top of a module do. Four rules:

- objstore <- scheduler <- cellmesh <- kernel_ext, never back; within them folders stand in the order of `ORDER`.
- No circles among modules.
- One module speaks ZeroMQ.
- Cores and policies (`PURE`) know no clock, socket, file or process: what they decide is tested by calling them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ["objstore", "scheduler", "cellmesh", "kernel_ext"]  # each may import itself and what stands before it
# Folders and, where a folder has several floors, files. Each may import itself and what stands before it; a folder's
# sub-folders belong to it unless they are listed themselves.
ORDER = (
    "objstore",
    # scheduler: from Linux and the wire up to processes
    "scheduler/sync",
    "scheduler/system",
    "scheduler/ipc",
    "scheduler/node",
    "scheduler/worker",
    "scheduler/local_scheduler",
    "scheduler/cluster/messages.py",
    "scheduler/cluster/engine.py",
    "scheduler/cluster/placement.py",
    "scheduler/cluster/leases",
    "scheduler/cluster/net",
    "scheduler/cluster/store",
    "scheduler/cluster/peer",
    "scheduler/cluster/agent",
    "scheduler/cluster/head",
    # cellmesh: words and classes, the session, what looks at it, what submits to it, the API, how it begins
    "cellmesh/exit_codes.py",
    "cellmesh/front_end.py",
    "cellmesh/type_variables.py",
    "cellmesh/ids.py",
    "cellmesh/mypy_plugin.py",
    "cellmesh/refs.py",
    "cellmesh/text.py",
    "cellmesh/submit/option_values.py",
    "cellmesh/tracebacks.py",
    "cellmesh/exceptions.py",
    "cellmesh/magics_hint.py",
    "cellmesh/__init__.py",  # imports the others when they are asked for
    "cellmesh/environment",
    "cellmesh/session",
    "cellmesh/errors",
    "cellmesh/observe",
    "cellmesh/pickled_refs.py",
    "cellmesh/submit",
    "cellmesh/tasks",
    "cellmesh/shared_memory.py",
    "cellmesh/groups",
    "cellmesh/typed.py",
    "cellmesh/state.py",
    "cellmesh/recording.py",
    "cellmesh/objects.py",
    "cellmesh/waiting.py",
    "cellmesh/api.py",
    "cellmesh/output",
    "cellmesh/util",
    "cellmesh/tune",
    "cellmesh/train",
    "cellmesh/rl",
    "cellmesh/core_hooks.py",
    "cellmesh/compat",
    "cellmesh/engines/addresses.py",
    "cellmesh/engines",
    "cellmesh/startup",
    "cellmesh/cli",
    "cellmesh/compat/ray",
    # kernel_ext: cells, what is printed, the graph, cards, the panel, magics
    "kernel_ext/panel_messages.py",
    "kernel_ext/background.py",
    "kernel_ext/iopub.py",
    "kernel_ext/kept_results.py",
    "kernel_ext/cells/analysis",
    "kernel_ext/cells",
    "kernel_ext/front_end.py",
    "kernel_ext/output",
    "kernel_ext/graph",
    "kernel_ext/cards",
    "kernel_ext/tune",
    "kernel_ext/ranks",
    "kernel_ext/panel",
    "kernel_ext/host.py",
    "kernel_ext/magics",
    "kernel_ext/__init__.py",
)
# What modules below may ask of the package itself, which imports everything when it is first used.
OF_THE_PACKAGE = {
    "cellmesh/cli/main.py": {"__version__"},
    "cellmesh/session/current.py": {"init"},
    "cellmesh/submit/actor_class.py": {"group"},
    "cellmesh/startup/context.py": {"__version__"},
    "cellmesh/tune/running/host.py": {"__version__"},
}
IMPURE = {
    "asyncio",
    "atexit",
    "concurrent",
    "datetime",
    "fcntl",
    "http",
    "mmap",
    "multiprocessing",
    "os",
    "pathlib",
    "psutil",
    "random",
    "resource",
    "select",
    "selectors",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "zmq",
}
IMPURE_CALLS = {"open", "input"}
# Files and whole folders, by path from the root.
PURE = (
    "cellmesh/engines/actor/asked.py",
    "cellmesh/engines/actor/lines.py",
    "cellmesh/engines/actors.py",
    "cellmesh/engines/addresses.py",
    "cellmesh/engines/bundles.py",
    "cellmesh/engines/calls.py",
    "cellmesh/engines/connection/options.py",
    "cellmesh/engines/dask/terms.py",
    "cellmesh/engines/heard.py",
    "cellmesh/engines/interface.py",
    "cellmesh/engines/kept.py",
    "cellmesh/engines/packing.py",
    "cellmesh/engines/parcels.py",
    "cellmesh/engines/peer.py",
    "cellmesh/engines/relay/pieces.py",
    "cellmesh/engines/relay/submitter.py",
    "cellmesh/engines/values.py",
    "cellmesh/exceptions.py",
    "cellmesh/front_end.py",
    "cellmesh/groups/arguments.py",
    "cellmesh/groups/fitting.py",
    "cellmesh/groups/on_death.py",
    "cellmesh/groups/shape.py",
    "cellmesh/ids.py",
    "cellmesh/observe/selecting.py",
    "cellmesh/observe/states.py",
    "cellmesh/observe/tables.py",
    "cellmesh/output/progress_text.py",
    "cellmesh/submit/option_values.py",
    "cellmesh/submit/flags.py",
    "cellmesh/submit/signatures.py",
    "cellmesh/rl/episodes/statistics.py",
    "cellmesh/rl/episodes/frames.py",
    "cellmesh/rl/hyperparameters.py",
    "cellmesh/rl/rllib_names.py",
    "cellmesh/rl/models/actions.py",
    "cellmesh/rl/models/array_model.py",
    "cellmesh/rl/models/encoding.py",
    "cellmesh/tune/control",
    "cellmesh/tune/records.py",
    "cellmesh/tune/values.py",
    "cellmesh/tune/view.py",
    "cellmesh/tune/schedulers/__init__.py",
    "cellmesh/tune/schedulers/asha.py",
    "cellmesh/tune/schedulers/built_in.py",
    "cellmesh/tune/schedulers/explore.py",
    "cellmesh/tune/schedulers/fifo.py",
    "cellmesh/tune/schedulers/hyperband.py",
    "cellmesh/tune/schedulers/median.py",
    "cellmesh/tune/schedulers/pbt.py",
    "cellmesh/tune/schedulers/pbt_replay.py",
    "cellmesh/tune/schedulers/protocol.py",
    "cellmesh/tune/schedulers/rungs.py",
    "cellmesh/tune/schedulers/turns.py",
    "cellmesh/tune/space",
    "kernel_ext/cards/actor_html.py",
    "kernel_ext/cards/experiment_facts.py",
    "kernel_ext/cards/experiment_html.py",
    "kernel_ext/cards/experiment_svg.py",
    "kernel_ext/cards/group_html.py",
    "kernel_ext/cards/html.py",
    "kernel_ext/cards/learning_html.py",
    "kernel_ext/cards/learning_svg.py",
    "kernel_ext/cards/plot_svg.py",
    "kernel_ext/cells/analysis",
    "kernel_ext/graph/collectives.py",
    "kernel_ext/graph/columns.py",
    "kernel_ext/graph/entries.py",
    "kernel_ext/graph/events.py",
    "kernel_ext/graph/model.py",
    "kernel_ext/graph/remote.py",
    "kernel_ext/graph/row.py",
    "kernel_ext/graph/samples.py",
    "kernel_ext/graph/summary.py",
    "kernel_ext/graph/tables.py",
    "kernel_ext/graph/view.py",
    "kernel_ext/magics/arguments.py",
    "kernel_ext/magics/line.py",
    "kernel_ext/ranks/folding.py",
    "kernel_ext/panel/graph_text.py",
    "kernel_ext/panel/learning_columns.py",
    "kernel_ext/panel/picture.py",
    "kernel_ext/panel/trial_columns.py",
    "kernel_ext/panel_messages.py",
    "scheduler/cluster/agent/core.py",
    "scheduler/cluster/agent/engine_head.py",
    "scheduler/cluster/agent/events.py",
    "scheduler/cluster/agent/home_queue.py",
    "scheduler/cluster/agent/peer_reset.py",
    "scheduler/cluster/agent/reachability.py",
    "scheduler/cluster/agent/strategies.py",
    "scheduler/cluster/head/core.py",
    "scheduler/cluster/leases",
    "scheduler/cluster/engine.py",
    "scheduler/cluster/messages.py",
    "scheduler/cluster/agent/status_feed.py",
    "scheduler/cluster/net/events.py",
    "scheduler/cluster/net/reliable.py",
    "scheduler/cluster/net/tokens.py",
    "scheduler/cluster/peer/broadcast.py",
    "scheduler/cluster/peer/capacity.py",
    "scheduler/cluster/peer/cell_numbers.py",
    "scheduler/cluster/peer/lineage.py",
    "scheduler/cluster/placement.py",
    "scheduler/ipc/messages.py",
    "scheduler/local_scheduler/core.py",
    "scheduler/local_scheduler/policy.py",
    "scheduler/local_scheduler/states.py",
    "scheduler/sync/token_bucket.py",
    "cellmesh/compat/ray/rllib/options.py",
    "cellmesh/compat/ray/rllib/results.py",
)
# `%load_ext cellmesh` finds its hooks in the package itself, so the package must reach the kernel's side, when asked
# to.
LOAD_EXTENSION = ("cellmesh/__init__.py", {"load_ipython_extension", "unload_ipython_extension"})


def modules() -> list[Path]:
    return sorted(p for layer in LAYERS for p in (ROOT / layer).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> list[str]:
    """The dotted package a module lies in, as a list: scheduler/worker/main.py -> cellmesh, scheduler, worker."""
    folders = list(path.relative_to(ROOT).parts[:-1])
    return folders if folders[0] == "cellmesh" else ["cellmesh", *folders]


def imported(path: Path, tree: ast.AST) -> set[str]:
    """Absolute names of everything imported anywhere in `tree`, relative ones resolved."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = package_of(path)
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{stem}.{alias.name}" for alias in node.names}
    return found


def type_checking_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


class Pruned(ast.NodeTransformer):
    """Leaves out what only a type checker imports, wherever it stands, and the hooks of `%load_ext`."""

    def __init__(self, hooks: set[str]) -> None:
        self.hooks = hooks

    def visit(self, node: ast.AST) -> Any:
        return node if isinstance(node, ast.expr) else super().visit(node)  # no statement is in an expression

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        return node.orelse if type_checking_only(node) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST | None:
        self.generic_visit(node)
        return None if node.name in self.hooks else node


@cache
def parse(path: Path) -> ast.Module:
    """The module as it runs."""
    hooks = LOAD_EXTENSION[1] if name(path) == LOAD_EXTENSION[0] else set()
    return Pruned(hooks).visit(ast.parse(path.read_text(), str(path)))


@cache
def by_dotted_name() -> dict[str, str]:
    """The path of each module of ours, extension modules included (by their stubs)."""
    stubs = [p for layer in LAYERS for p in (ROOT / layer).rglob("*.pyi")]
    found = {}
    for path in [*modules(), *stubs]:
        parts = [*package_of(path), *([] if path.stem == "__init__" else [path.stem])]
        found[".".join(parts)] = name(path)
    return found


@cache
def imported_by(path: Path) -> set[str]:
    """`imported` of a module of ours, as it runs."""
    return imported(path, parse(path))


def module_of(dotted: str) -> tuple[str | None, str]:
    """The module of ours in which an imported name is, and what is imported from it, "" for itself."""
    known, rest = by_dotted_name(), ""
    while dotted and dotted not in known:
        dotted, _, last = dotted.rpartition(".")
        rest = f"{last}.{rest}" if rest else last
    return (known[dotted], rest) if dotted else (None, rest)


@cache
def imports() -> dict[str, set[str]]:
    """By each module's path, the paths of the modules of ours that it imports, at its top or in functions."""
    found: dict[str, set[str]] = {path: set() for path in by_dotted_name().values()}
    for path in modules():
        targets = {module_of(dotted)[0] for dotted in imported_by(path)}
        found[name(path)] = {target for target in targets if target is not None and target != name(path)}
    return found


def circles(arrows: Mapping[str, set[str]]) -> Iterator[list[str]]:
    """Circles among modules, one for each strongly connected part: a shortest way from a module back to itself."""
    left = {start: set(targets) for start, targets in arrows.items()}
    while True:  # what nobody imports, and what imports nothing, is in no circle
        idle = {m for m in left if not left[m]} | (left.keys() - set().union(*left.values()) if left else set())
        if not idle:
            break
        left = {m: targets - idle for m, targets in left.items() if m not in idle}
    for start in sorted(left):
        ways, seen = [[start]], {start}
        for way in ways:
            if start in left[way[-1]]:
                yield [*way, start]
                return
            for target in sorted(left[way[-1]] - seen):
                seen.add(target)
                ways.append([*way, target])


def folder_of(path: str) -> str:
    """The entry of `ORDER` that a module belongs to."""
    fitting = [entry for entry in ORDER if path == entry or path.startswith(f"{entry}/")]
    return max(fitting, key=len, default="")


def layer_of(dotted: str) -> str | None:
    """The layer an imported name belongs to, None for other people's."""
    parts = dotted.split(".")
    if parts[0] != "cellmesh":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "cellmesh"


def test_arrows_never_point_back() -> None:
    """Layers: also for names that are no module, such as `from .. import kernel_ext`."""
    back = []
    for path in modules():
        own = LAYERS.index(path.relative_to(ROOT).parts[0])
        for dotted in sorted(imported_by(path)):
            if (layer := layer_of(dotted)) is not None and LAYERS.index(layer) > own:
                back.append(f"{name(path)} imports {dotted}")
    assert not back, f"{'; '.join(back)}. {' <- '.join(LAYERS)}"


def test_only_the_wire_between_machines_imports_zmq() -> None:
    users = {name(p) for p in modules() if any(d.split(".")[0] == "zmq" for d in imported_by(p))}
    assert users == {f"scheduler/cluster/net/{stem}.py" for stem in ("head_link", "head_socket", "peers", "sockets")}


# ---- circles and folders
def test_no_imports_go_in_a_circle() -> None:
    found = [" -> ".join(circle) for circle in circles(imports())]
    assert not found, f"a circle of imports: {found[0]}"


def test_every_module_has_its_place_in_the_order() -> None:
    lost = [name(path) for path in modules() if not folder_of(name(path)) and path.name != "__init__.py"]
    gone = [entry for entry in ORDER if not (ROOT / entry).exists()]
    assert not lost and not gone, f"ORDER has no place for {lost}, and names what is not there: {gone}"


def backward(path: str) -> set[tuple[str, str]]:
    own, places = folder_of(path), {entry: i for i, entry in enumerate(ORDER)}
    targets = {folder_of(target) for target in imports()[path]} - {"", own}
    return {(own, target) for target in targets if own and places[target] > places[own]}


def test_folders_import_what_stands_before_them() -> None:
    found = {name(path): backward(name(path)) for path in modules()}
    told = [f"{path} ({own}) imports {target}" for path, arrows in found.items() for own, target in sorted(arrows)]
    assert not told, f"{'; '.join(told)}: see ORDER"


def test_few_ask_the_package_for_what_stands_above_them() -> None:
    found: dict[str, set[str]] = {}
    for path in modules():
        for dotted in imported_by(path):
            module, wanted = module_of(dotted)
            if module == "cellmesh/__init__.py" and wanted:
                found.setdefault(name(path), set()).add(wanted)
    assert found == OF_THE_PACKAGE


# ---- purity
def test_pure_files_exist() -> None:
    assert not [entry for entry in PURE if not (ROOT / entry).exists()]


def is_pure(path: Path) -> bool:
    return any(name(path) == entry or name(path).startswith(f"{entry}/") for entry in PURE)


def says_pure(tree: ast.Module) -> bool:
    return bool(re.search(r"\bPure\b", ast.get_docstring(tree) or ""))


def test_what_calls_itself_pure_is_on_the_list() -> None:
    lost = [name(path) for path in modules() if not is_pure(path) and says_pure(parse(path))]
    assert not lost, f"their docstrings say that they are pure, so they belong in PURE: {', '.join(lost)}"


def impurities(path: Path, tree: ast.AST) -> set[str]:
    calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    modules = {dotted for dotted in imported(path, tree) if dotted.split(".")[0] in IMPURE}
    return modules | {f"{call}()" for call in calls & IMPURE_CALLS}


@pytest.mark.parametrize("path", [p for p in modules() if is_pure(p)], ids=name)
def test_cores_know_no_clock_socket_file_or_process(path: Path) -> None:
    found = impurities(path, parse(path))
    assert not found, f"{name(path)} uses {', '.join(sorted(found))}; pass what it needs as an argument"


# ---- the checks themselves
@pytest.mark.parametrize(
    "source, message",
    [
        ("from ..kernel_ext import comm", "cellmesh.kernel_ext"),
        ("from .. import kernel_ext", "cellmesh.kernel_ext"),
        ("import cellmesh.kernel_ext.panel.requests", "cellmesh.kernel_ext"),
        ("def f():\n    from ..kernel_ext.comm import x", "cellmesh.kernel_ext"),
    ],
)
def test_the_check_sees_every_form_of_import(source: str, message: str) -> None:
    found = imported(ROOT / "scheduler/module.py", ast.parse(source))
    assert any(dotted.startswith(message) and layer_of(dotted) == "kernel_ext" for dotted in found)


def test_the_check_sees_a_circle_through_a_function() -> None:
    arrows = {"a.py": {"b.py"}, "b.py": {"c.py"}, "c.py": {"a.py", "d.py"}, "d.py": set(), "e.py": {"a.py"}}
    assert list(circles(arrows)) == [["a.py", "b.py", "c.py", "a.py"]]
    assert not list(circles(arrows | {"c.py": {"d.py"}}))
    inside = ast.parse("def f():\n    from ..observe import history")
    assert imported(ROOT / "cellmesh/session/session.py", inside) == {"cellmesh.observe.history"}


def test_the_check_leaves_out_what_only_type_checkers_import() -> None:
    source = (
        "if TYPE_CHECKING:\n    import zmq\nelse:\n    import os\ndef f():\n    if TYPE_CHECKING:\n        import ssl"
    )
    assert imported(ROOT / "cellmesh/text.py", Pruned(set()).visit(ast.parse(source))) == {"os"}


def test_the_check_sees_what_calls_itself_pure() -> None:
    assert says_pure(ast.parse('"""Numbers in, numbers out. Pure: no clock."""'))
    assert not says_pure(ast.parse('"""All of it is pure but the threads."""\n"""Pure."""'))


@pytest.mark.parametrize(
    "source", ["import time", "def f():\n    from os import path", "def f(p):\n    return open(p)"]
)
def test_the_check_sees_what_is_not_pure(source: str) -> None:
    assert impurities(ROOT / "cellmesh/ids.py", ast.parse(source))
