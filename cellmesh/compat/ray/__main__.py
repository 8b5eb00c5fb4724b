"""`python -m cellmesh.compat.ray script.py [arguments]`: run a Ray script as it is; `... start --head`: a command of
Ray's.
"""

from __future__ import annotations

import os
import runpy
import sys

from ..alias import install
from ._commands import COMMANDS, translated


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(
            "usage: python -m cellmesh.compat.ray SCRIPT [ARGUMENT ...]\n"
            f"       python -m cellmesh.compat.ray {{{','.join(COMMANDS)}}} [OPTION ...]\n\n"
            "Runs a Ray script with cellmesh in Ray's place, or what cellmesh has in place of one of Ray's commands.",
            file=sys.stderr,
        )
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    if sys.argv[1] in COMMANDS:
        from ...cli.main import main as command

        sys.exit(command(translated(sys.argv[1:])))
    if not os.path.isfile(sys.argv[1]):
        print(f"there is no file {sys.argv[1]}", file=sys.stderr)
        sys.exit(2)
    install()
    del sys.argv[0]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))  # as Python itself does for a script
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
