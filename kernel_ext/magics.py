"""`%load_ext cellmesh`: the magics. They parse a line and call what does the work; importing this module is quick."""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher
from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from traitlets import Bool, observe

from .. import session as sessions
from .. import surroundings
from ..exceptions import CellmeshError
from . import arguments, host
from .cell_events import CellEvents
from .cells import CellError
from .remote_cell import RemoteCells
from .shown_tracebacks import ShownTracebacks

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell


@magics_class
class CellmeshMagics(Magics):
    """The magics of one notebook."""

    cancel_on_stop = Bool(False, help="Whether the stop button also cancels the tasks that the cell has started.").tag(
        config=True)

    keep_frames = Bool(False, help="Whether tasks that fail from now on keep their frames, for %inspect --pdb.").tag(config=True)

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.cells = RemoteCells(shell)
        self.tracebacks = ShownTracebacks(shell.InteractiveTB)
        self.events = CellEvents(shell, self.cells.shipper, lambda: self.cancel_on_stop)

    @observe("keep_frames")
    def _keep_frames(self, change: dict[str, Any]) -> None:
        surroundings.keep_frames = change["new"]
        if (session := sessions.current_or_none()) is not None:
            session.refresh_workers()

    @cell_magic
    def remote(self, line: str, cell: str) -> Any:
        __tracebackhide__ = True
        options = arguments.REMOTE.parse(line)
        with _Mistakes(self.shell):
            return self.cells.run(cell, _lines_above(cell, self.events.raw_cell), options)

    @cell_magic
    def actor(self, line: str, cell: str) -> None:
        __tracebackhide__ = True
        options = arguments.ACTOR.parse(line)
        with _Mistakes(self.shell):
            self.cells.start_actor(cell, _lines_above(cell, self.events.raw_cell), options)

    @line_magic
    def fetch(self, line: str) -> None:
        from .fetch import fetch
        __tracebackhide__ = True
        options = arguments.FETCH.parse(line)
        with _Mistakes(self.shell):
            fetch(options.names, self.shell.user_ns, options.timeout, self.cells.shipper)

    @line_magic
    def mesh(self, line: str) -> Any:
        from .mesh import mesh
        __tracebackhide__ = True
        options = arguments.MESH.parse(line)
        with _Mistakes(self.shell):
            return mesh(options)

    @line_magic
    def futures(self, line: str) -> Any:
        from .futures_table import FuturesTable
        arguments.FUTURES.parse(line)
        return FuturesTable(host.install(self.shell).cards, self.shell.user_ns)

    @line_magic
    def inspect(self, line: str) -> Any:
        from .inspection import debug, inspect
        __tracebackhide__ = True
        options = arguments.INSPECT.parse(line)
        with _Mistakes(self.shell):
            if options.pdb:
                return debug(options.variable, self.shell.user_ns, host.install(self.shell).cards)
            return inspect(options.variable, self.shell.user_ns, host.install(self.shell))

    @line_magic
    def graph(self, line: str) -> Any:
        from .widget import graph_view
        __tracebackhide__ = True
        options = arguments.GRAPH.parse(line)
        if not options.save:
            return graph_view()
        from .saving import save
        with _Mistakes(self.shell):
            print(save(host.install(self.shell), options.save))
        return None

    @line_magic
    def cancel(self, line: str) -> None:
        from .cancel import cancel
        __tracebackhide__ = True
        options = arguments.CANCEL.parse(line)
        with _Mistakes(self.shell):
            cancel(options.what, self.shell.user_ns, everything=options.all, force=options.force)

    @line_magic
    def retry(self, line: str) -> Any:
        from .retry import retry
        __tracebackhide__ = True
        options = arguments.RETRY.parse(line)
        with _Mistakes(self.shell):
            return retry(options.names, self.shell.user_ns, everything=options.all)


for _magic in arguments.ALL:
    getattr(CellmeshMagics, _magic.name.strip("%")).__doc__ = _magic.documentation()


class _Mistakes:
    """Shows a mistake of a cell's author in a sentence, a task's error with the traceback from there."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type | None, error: BaseException | None, traceback: TracebackType | None) -> bool:
        if isinstance(error, CellError):
            if error.shown_as is None:
                raise UsageError(str(error)) from None
            self.show(error.shown_as)
        elif isinstance(error, CellmeshError):
            self.show(error)
        else:
            return False
        return True

    def show(self, error: Exception) -> None:
        """Show an error without a traceback; the cell counts as failed."""
        result = self.shell.displayhook.exec_result
        if result is None:  # not called from a cell
            raise error
        result.error_in_exec = error
        if isinstance(error, SyntaxError):
            stack = self.shell.SyntaxTB.structured_traceback(type(error), error, [])
            self.shell._showtraceback(type(error), error, stack)
        else:
            self.shell.showtraceback((type(error), error, None))


def _lines_above(body: str, raw_cell: str) -> list[str]:
    """The lines of the notebook's cell above the magic's body: lines are counted as the notebook counts them."""
    text = body.rstrip()  # IPython ends the last line
    if text and raw_cell.rstrip().endswith(text):
        return raw_cell.rstrip().removesuffix(text).splitlines()
    return ["%%remote"]  # called by other means than a cell of its own


# ---- completion

@context_matcher()
def complete_flags(context: CompletionContext) -> SimpleMatcherResult:
    """The flags of the magic in whose line the cursor is, where a flag has begun."""
    words = context.text_until_cursor.split()
    magic = next((magic for magic in arguments.ALL if words and magic.name == words[0]), None)
    token = context.token
    if magic is None or not token.startswith("-"):
        return {"completions": []}
    used = set(words[1:]) - {token}
    flags = [flag.name for flag in magic.flags if flag.name.startswith(token) and flag.name not in used]
    completions = [SimpleCompletion(flag, type="param") for flag in flags]
    return {"completions": completions, "suppress": bool(flags), "ordered": True}


# ---- the extension

_loaded: dict[InteractiveShell, CellmeshMagics] = {}


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext cellmesh`; harmless when repeated."""
    if shell in _loaded:
        return
    magics = _loaded[shell] = CellmeshMagics(shell)
    shell.register_magics(magics)
    shell.Completer.custom_matchers.append(complete_flags)
    host.install(shell)
    magics.events.start()
    magics.tracebacks.install()
    shell.events.register("post_run_cell", magics.tracebacks.forget)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """`%unload_ext cellmesh`: what was loaded is gone; the session and its futures stay."""
    magics = _loaded.pop(shell, None)
    if magics is None:
        return
    magics.events.stop()
    magics.tracebacks.uninstall()
    shell.events.unregister("post_run_cell", magics.tracebacks.forget)
    magics.keep_frames = False
    shell.configurables.remove(magics)
    host.uninstall(shell)
    shell.Completer.custom_matchers.remove(complete_flags)
    for magic in arguments.ALL:
        shell.magics_manager.magics["cell" if magic.name.startswith("%%") else "line"].pop(magic.name.strip("%"), None)
