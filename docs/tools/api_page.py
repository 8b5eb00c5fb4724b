"""Writes docs/api.md, the reference of the Python API, from signatures and docstrings.

python docs/tools/api_page.py            # cellmesh must be importable
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docstring_parser import parse
from docstring_parser.common import DocstringStyle

import cellmesh as cm
from cellmesh import exceptions, state, util
from cellmesh.groups.actor_group import GroupMember
from cellmesh.groups.calls import GroupMethod
from cellmesh.groups.inside import CurrentGroup
from cellmesh.output.progress import Progress
from cellmesh.submit.mapping import Results
from cellmesh.tasks.periodic import Periodic
from cellmesh.tasks.task_groups import TaskGroup
from cellmesh.type_variables import HIDDEN
from cellmesh.util import engines, shared_sync

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
HEAD = """# The Python API

`import cellmesh as cm`. This page is made by `docs/tools/api_page.py` from what `help()` shows. Beside it: [how to do
what](how-to.md), [the defaults](defaults.md), [the magics](magics.md), [pitfalls](pitfalls.md).
"""

# heading -> the names of `cellmesh` below it. A name that is in none is an error.
SECTIONS = {
    "Sessions": ("init", "shutdown", "is_initialized"),
    "Tasks and actors": (
        "remote",
        "RemoteFunction",
        "ActorClass",
        "ActorHandle",
        "method",
        "get_actor",
        "task_group",
        "every",
        "retry",
        "kill",
        "cancel",
        "exit_actor",
        "save_checkpoint",
        "load_checkpoint",
        "get_runtime_context",
        "get_gpu_ids",
    ),
    "Actor groups": ("group", "ActorGroup", "RefGroup", "current_group"),
    "Objects and futures": (
        "get",
        "put",
        "shared_array",
        "shared_arrays",
        "wait",
        "as_completed",
        "ObjectRef",
        "ObjectRefGenerator",
    ),
    "Looking": (
        "progress",
        "nodes",
        "cluster_resources",
        "available_resources",
        "error_info",
        "timeline",
        "inspect_serializability",
    ),
}
# What is not made by its class, but returned: shown without a constructor.
RETURNED = {
    "Results": Results,
    "TaskGroup": TaskGroup,
    "GroupMethod": GroupMethod,
    "GroupMember": GroupMember,
    "CurrentGroup": CurrentGroup,
    "Periodic": Periodic,
    "Progress": Progress,
}
# Methods that have these names are Python's affair, and internal ones begin with an underscore.
SHOWN_SPECIAL = ("__await__",)
WIDTH = 110


def page() -> str:
    """The whole page."""
    if (
        missing := set(cm.__all__)
        - {"exceptions", "recording", "rl", "state", "tune", "util"}
        - {name for names in SECTIONS.values() for name in names}
    ):
        raise SystemExit(f"docs/tools/api_page.py: in no section: {', '.join(sorted(missing))}")
    sections = {
        heading: {f"cellmesh.{name}": getattr(cm, name) for name in names} for heading, names in SECTIONS.items()
    }
    sections["What these return"] = RETURNED
    sections["Listings"] = {f"cellmesh.state.{name}": getattr(state, name) for name in state.__all__}
    sections["Helpers"] = {f"cellmesh.util.{name}": getattr(util, name) for name in sorted(util.__all__, key=str.lower)}
    sections["Shared memory"] = {
        f"cellmesh.util.shared_sync.{name}": getattr(shared_sync, name) for name in shared_sync.__all__
    }
    sections["Engines"] = {f"cellmesh.util.engines.{name}": getattr(engines, name) for name in engines.__all__}
    contents = "\n".join(
        f"- [{heading}](#{anchor(heading)}): "
        + ", ".join(f"[`{name.rpartition('.')[2]}`](#{anchor(name)})" for name in names)
        for heading, names in sections.items()
    )
    parts = [HEAD, contents + "\n- [Errors and warnings](#errors-and-warnings)"]
    for heading, names in sections.items():
        parts += [f"## {heading}", *(entry(name, value) for name, value in names.items())]
    return "\n\n".join([*(part.strip("\n") for part in parts), errors()]) + "\n"


def anchor(heading: str) -> str:
    """What a link to a heading says, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def entry(name: str, value: Any) -> str:
    """One function or class, with its public methods."""
    parts = [f"### {name}", "" if name in RETURNED else signature(name, value), described(value)]
    if inspect.isclass(value):
        parts += [f"**`{signature_line(method, member)}`**: {described(member)}" for method, member in methods(value)]
    return "\n\n".join(filter(None, parts))


def methods(of: type) -> Iterator[tuple[str, Any]]:
    """What a class offers beside what Python asks of it, in the order of its definition; what has no docstring of its
    own is internal.
    """
    for name in dict.fromkeys(
        name for base in of.__mro__ if base.__module__.startswith("cellmesh") for name in vars(base)
    ):
        member = getattr(of, name)
        is_ours = callable(member) or inspect.isdatadescriptor(member)
        if (
            (not name.startswith("_") or name in SHOWN_SPECIAL)
            and name not in HIDDEN
            and is_ours
            and inspect.getdoc(member)
        ):
            yield name, member


def signature(name: str, value: Any) -> str:
    line = signature_line(name, value)
    if len(line) > WIDTH and (opening := line.find("(")) > 0:
        inside, _, returned = line[opening + 1 :].rpartition(")")
        line = (
            f"{line[:opening]}(\n"
            + textwrap.fill(
                inside,
                WIDTH,
                initial_indent="    ",
                subsequent_indent="    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            + f"){returned}"
        )
    return textwrap.indent(line, "    ")


def signature_line(name: str, value: Any) -> str:
    """As in `help()`. A type that only its module can make, and a property, have none."""
    if not callable(value):
        return name
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name if inspect.isclass(value) else f"{name}(...)"
    parameters = [p for p in found.parameters.values() if p.name not in ("self", "cls")]
    bare = found.replace(parameters=[p.replace(annotation=p.empty) for p in parameters], return_annotation=found.empty)
    return name if inspect.isclass(value) and not parameters else f"{name}{bare}"


def described(value: Any) -> str:
    """A docstring as Markdown: what it does, a table of parameters, what it returns and raises."""
    text = inspect.getdoc(value) or ""
    doc = parse(text, DocstringStyle.NUMPYDOC)
    parts = [paragraphs(re.split(r"^[A-Z][\w ]*\n-{3,}$", text, maxsplit=1, flags=re.M)[0])]
    for title, kind in (("parameter", "param"), ("attribute", "attribute")):
        if rows := [
            f"| `{part.arg_name}` | {cell(part.type_name)} | {cell(part.description)} |"
            for part in doc.params
            if part.args[0] == kind
        ]:
            parts.append("\n".join([f"| {title} | type | |", "| --- | --- | --- |", *rows]))
    if doc.many_returns:
        parts.append(
            "\n".join(
                f"*{'Yields' if part.is_generator else 'Returns'}* "
                + ": ".join(
                    filter(None, (part.return_name and f"`{part.return_name}`", part.type_name, flat(part.description)))
                )
                for part in doc.many_returns
            )
        )
    if doc.raises:
        parts.append(
            "\n".join(
                [
                    "| raises | when |",
                    "| --- | --- |",
                    *(f"| `{part.type_name}` | {cell(part.description)} |" for part in doc.raises),
                ]
            )
        )
    parts += [paragraphs(part.description) for part in doc.meta if part.args[0] in ("notes", "see_also", "warnings")]
    parts += [code(f"{example.snippet}\n{example.description or ''}") for example in doc.examples]
    return "\n\n".join(filter(None, parts))


def first_paragraph(value: Any) -> str:
    return flat((inspect.getdoc(value) or "").split("\n\n")[0])


def paragraphs(text: str | None) -> str:
    """As it stands, but for the line breaks inside paragraphs; what is indented is code."""
    blocks = textwrap.dedent(text or "").strip("\n").split("\n\n")
    return "\n\n".join(block if re.match(r" {4}|[-*|>]", block) else flat(block) for block in blocks)


def code(session: str) -> str:
    """What is typed in an interactive session, without its prompts and what is said to doctest."""
    return "\n".join(
        f"    {re.sub(' *# doctest:.*', '', line[4:])}"
        for line in session.splitlines()
        if line.startswith((">>> ", "... "))
    )


def flat(text: str | None) -> str:
    return " ".join((text or "").split())


def cell(text: str | None) -> str:
    return flat(text).replace("|", "\\|")


def errors() -> str:
    """The tree of errors, and what each says of itself."""
    tree = paragraphs(inspect.getdoc(exceptions))
    rows = [
        f"| `{name}` | {cell(first_paragraph(value))} |"
        for name, value in sorted(vars(exceptions).items())
        if inspect.isclass(value)
        and issubclass(value, BaseException)
        and value.__module__ == exceptions.__name__
        and not name.startswith("_")
    ]
    return "\n\n".join(
        [
            "## Errors and warnings",
            "All are in `cellmesh.exceptions`.",
            tree,
            "\n".join(["| class | |", "| --- | --- |", *rows]),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
