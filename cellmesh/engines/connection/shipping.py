"""What an engine's workers must have of this program's packages, and which of these are sent there.

A pocket is cellmesh and what that imports. Workers that have it not, or in another version, can be sent this program's,
if their Python can import it: part of it is compiled (decision 155).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module

Versions = Mapping[str, str]
"""Of a process, by `looks`."""

SENT = ("cellmesh", "msgspec", "cloudpickle")
ASKED = (*SENT, "distributed")
# How many parts of a version must be the same here and there; 0: any will do.
PARTS = {"Python": 2, "cellmesh": 9, "msgspec": 0, "cloudpickle": 1, "distributed": 2}


def looks(names: tuple[str, ...] = SENT) -> Callable[[], dict[str, str]]:
    """What says which of these packages a process has. It travels by value, and so needs none of them there. "": it has
    none that can be imported; "why" says what Python says of that. Of cellmesh it leaves nothing imported, as what is
    sent would not be used then."""

    def look() -> dict[str, str]:
        import sys
        import sysconfig
        from importlib import import_module

        found = {
            "Python": f"{sys.version_info[0]}.{sys.version_info[1]}",
            "platform": str(sysconfig.get_config_var("SOABI")),
            "why": "",
        }
        before = {*sys.modules}
        for name in names:
            try:
                found[name] = str(import_module(name).__version__)
                if name == "cellmesh":
                    import_module("cellmesh.objstore._core")
            except ImportError as error:
                found[name] = ""
                found["why"] = found["why"] or str(error)
        if "cellmesh" not in before:
            for name in [name for name in sys.modules if name.partition(".")[0] == "cellmesh"]:
                del sys.modules[name]
        return found

    return look


def folders(names: tuple[str, ...]) -> dict[str, str]:
    """Where these packages are here."""
    return {name: os.path.dirname(str(import_module(name).__file__)) for name in names}


# ---------------------------------------------------------------- pure
def to_send(here: Versions, there: Mapping[str, Versions]) -> tuple[str, ...]:
    """The packages that some of these processes lack and can be sent; none, if they could not use them."""
    if any(found[name] != here[name] for found in there.values() for name in ("Python", "platform")):
        return ()
    return tuple(name for name in SENT if any(_differ(name, here, found) for found in there.values()))


def problem(here: Versions, there: Mapping[str, Versions], *, may_send: bool, has_sent: bool) -> str:
    """Why what is sent to these processes cannot be run there; "" if it can. There: by what people call them.
    `may_send`: packages are sent to who lacks them; `has_sent`: they were."""
    for who, found in there.items():
        for name in PARTS:
            if name not in here or not _differ(name, here, found):
                continue
            text = (
                f"{who} has {name} {found[name]}, and this program has {name} {here[name]}: what is sent there would "
                "not be understood. Use the same version here and there"
                if found[name]
                else f"{who} has no {name}: install it there, `pip install {name}=={here[name]}` in its environment"
            )
            return text + (_of_sending(here, found, may_send, has_sent) if name in SENT else "")
    return ""


def _of_sending(here: Versions, there: Versions, may_send: bool, has_sent: bool) -> str:
    if there["platform"] != here["platform"]:
        return (
            f". It cannot be sent there: this program's is compiled for {here['platform']}, and Python there is "
            f"{there['platform']}"
        )
    if has_sent:
        why = there["why"] or "another one was imported before it came: start the workers again"
        return f". This program's was sent there and is not used: {why}"
    return "" if may_send else ', or leave engine_options={"ship": False} out, and it is sent there'


def _differ(name: str, here: Versions, there: Versions) -> bool:
    mine, theirs = here[name], there[name]
    return not theirs or mine.split(".")[: PARTS[name]] != theirs.split(".")[: PARTS[name]]
