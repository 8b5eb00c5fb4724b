"""`%load_ext cellmesh`: the magics, and loading and unloading them.

A magic parses its line and calls the function that does the work. Importing this module is quick.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics, cell_magic, line_cell_magic, line_magic, magics_class
from traitlets import Bool, observe

from ... import magics_hint
from ...session.current import current_or_none
from ..cells.events import CellEvents
from ..host import Host
from ..output.tracebacks import ShownTracebacks
from . import arguments
from .completion import complete_flags, complete_ranks, complete_tune, variables_matcher
from .mistakes import Mistakes

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..cells.remote import RemoteCells
    from ..ranks.ranks import Ranks


@magics_class
class CellmeshMagics(Magics):
    """The magics of one notebook."""

    cancel_on_stop = Bool(False, help="Whether the stop button also cancels the tasks that the cell has started.").tag(
        config=True
    )

    keep_frames = Bool(False, help="Whether tasks that fail from now on keep their frames, for %inspect --pdb.").tag(
        config=True
    )

    def __init__(self, shell: InteractiveShell) -> None:
        self.host = Host(shell)  # before the options come from the configuration: one of them is the front end's
        super().__init__(shell)
        self.tracebacks = ShownTracebacks(shell.InteractiveTB)
        self.events = CellEvents(shell, self._forget_rebound, lambda: self.cancel_on_stop)
        self.matchers = [complete_flags, complete_tune, complete_ranks, variables_matcher(shell)]

    @cached_property
    def cells(self) -> RemoteCells:
        """Made by the first cell that needs it, so that loading the extension is quick."""
        from ..cells.remote import RemoteCells

        return RemoteCells(self.host.shell, self.host)

    @cached_property
    def group(self) -> Ranks:
        """Of `%ranks`; made when they are first spoken of."""
        from ..ranks.ranks import Ranks

        return Ranks(self.cells, self.host)

    def _forget_rebound(self) -> None:
        """A cell begins: values that the variables of earlier cells do not hold any more may leave the store."""
        if "cells" in vars(self):
            self.cells.submission.shipper.forget_rebound(self.host.shell.user_ns)

    @observe("keep_frames")
    def _keep_frames(self, change: dict[str, Any]) -> None:
        self.host.front_end.keep_frames = change["new"]
        if (session := current_or_none()) is not None:
            session.refresh_workers()

    @cell_magic
    def remote(self, line: str, cell: str) -> Any:
        __tracebackhide__ = True
        options = arguments.REMOTE.parse(line)
        with Mistakes(self.host.shell):
            return self.cells.run(cell, _lines_above(cell, self.events.raw_cell), options)

    @cell_magic
    def actor(self, line: str, cell: str) -> None:
        __tracebackhide__ = True
        options = arguments.ACTOR.parse(line)
        with Mistakes(self.host.shell):
            self.cells.start_actor(cell, _lines_above(cell, self.events.raw_cell), options)

    @line_cell_magic
    def tune(self, line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True
        if cell is None:
            from ..tune.listing import tune

            options = arguments.TUNE.parse(line)
            with Mistakes(self.host.shell):
                return tune(options.words, self.host.shell.user_ns)
            return None
        from ..tune.cell import tune_cell

        options = arguments.TUNE_CELL.parse(line)
        with Mistakes(self.host.shell):
            tune_cell(self.cells, cell, _lines_above(cell, self.events.raw_cell), options)
        return None

    @line_cell_magic
    def ranks(self, line: str, cell: str | None = None) -> Any:
        __tracebackhide__ = True
        if cell is None:
            options = arguments.RANKS.parse(line)
            with Mistakes(self.host.shell):
                return self.group.run(options)
            return None
        from ..ranks.cell import run_cell

        options = arguments.RANKS_CELL.parse(line)
        with Mistakes(self.host.shell):
            run_cell(self.group, cell, _lines_above(cell, self.events.raw_cell), options)
        return None

    @line_magic
    def fetch(self, line: str) -> None:
        from .fetch import fetch

        __tracebackhide__ = True
        options = arguments.FETCH.parse(line)
        with Mistakes(self.host.shell):
            fetch(options.names, self.host.shell.user_ns, options.timeout, self.cells.submission.shipper)

    @line_magic
    def mesh(self, line: str) -> Any:
        from .mesh import mesh

        __tracebackhide__ = True
        options = arguments.MESH.parse(line)
        with Mistakes(self.host.shell):
            return mesh(options)

    @line_magic
    def futures(self, line: str) -> Any:
        from .futures import FuturesTable

        options = arguments.FUTURES.parse(line)
        return FuturesTable(self.host.cards, self.host.shell.user_ns, options.states)

    @line_magic
    def inspect(self, line: str) -> Any:
        from .inspect import debug, inspect

        __tracebackhide__ = True
        options = arguments.INSPECT.parse(line)
        with Mistakes(self.host.shell):
            if options.pdb:
                of_rank = self.group.failed_call
                return debug(options.variable, self.host.shell.user_ns, self.host.cards, of_rank)
            return inspect(options.variable, self.host.shell.user_ns, self.host)

    @line_magic
    def graph(self, line: str) -> Any:
        from ..panel.graph_display import graph_view

        __tracebackhide__ = True
        options = arguments.GRAPH.parse(line)
        if not options.save:
            return graph_view(self.host)
        from ..panel.saving import save

        with Mistakes(self.host.shell):
            print(save(self.host, options.save))
        return None

    @line_magic
    def cancel(self, line: str) -> None:
        from ..cells.cancel import cancel

        __tracebackhide__ = True
        options = arguments.CANCEL.parse(line)
        with Mistakes(self.host.shell):
            cancel(options.what, self.host.shell.user_ns, everything=options.all, force=options.force)

    @line_magic
    def retry(self, line: str) -> Any:
        from ..cells.retry import retry

        __tracebackhide__ = True
        options = arguments.RETRY.parse(line)
        with Mistakes(self.host.shell):
            return retry(options.names, self.host.shell.user_ns, everything=options.all)


for _magic in arguments.ALL:  # of %%tune and %tune, of %%ranks and %ranks, there is one function
    _function = getattr(CellmeshMagics, _magic.name.strip("%"))
    _function.__doc__ = "\n\n".join(filter(None, (_function.__doc__, _magic.documentation())))


def _lines_above(body: str, raw_cell: str) -> list[str]:
    """The lines of the notebook's cell above the magic's body: lines are counted as the notebook counts them."""
    text = body.rstrip()  # IPython ends the last line
    if text and raw_cell.rstrip().endswith(text):
        return raw_cell.rstrip().removesuffix(text).splitlines()
    return ["%%remote"]  # called by other means than a cell of its own


# ---- the extension

_loaded: dict[InteractiveShell, CellmeshMagics] = {}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext cellmesh`; harmless when repeated."""
    if shell in _loaded:
        return
    magics = _loaded[shell] = CellmeshMagics(shell)
    shell.register_magics(magics)
    shell.Completer.custom_matchers.extend(magics.matchers)
    magics.host.install()
    magics.events.start()
    magics.tracebacks.install()
    shell.events.register("post_run_cell", magics.tracebacks.forget)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext cellmesh`: what was loaded is gone; the session and its futures stay."""
    magics = _loaded.pop(shell, None)
    if magics is None:
        return
    from .. import background

    magics.events.stop()
    if "group" in vars(magics):
        magics.group.auto.end()
    magics.tracebacks.uninstall()
    shell.events.unregister("post_run_cell", magics.tracebacks.forget)
    magics.keep_frames = False
    configurables: list[Any] = shell.configurables
    configurables.remove(magics)
    background.close()  # which still publishes
    magics.host.uninstall()
    for matcher in magics.matchers:
        shell.Completer.custom_matchers.remove(matcher)
    for magic in arguments.ALL:
        shell.magics_manager.magics["cell" if magic.name.startswith("%%") else "line"].pop(magic.name.strip("%"), None)
    magics_hint.install(shell)  # as `import cellmesh` has done
