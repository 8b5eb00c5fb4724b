"""Everything of cellmesh that lives in a kernel beside the magics: made by `%load_ext`, undone by `%unload_ext`.

It follows the sessions of the process. One may begin before or after the extension is loaded, end, and be followed by
another; each gets a recorder, and its output goes to cells. What needs numpy is imported when there is something to
show, so that `%load_ext` is quick. Outside a kernel (IPython in a terminal) there is no front end to talk to, and refs
only show themselves as text.
"""
from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .. import driver_output, hooks
from .. import session as sessions
from ..refs import ObjectRef
from . import panel_messages as pm
from .cell_failure import as_flag
from .cell_registry import CellRegistry, registry
from .kept_calls import prune
from .output import CellOutput
from .wakeup import was_interrupted_before

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from ..session import Session
    from .card import Bundle, Cards
    from .comm import Panels
    from .recorder import Recorder


N_REFS_NAMED = 50  # of a list: those whose names are looked for in the ring of events, which takes milliseconds


class Host:
    """One kernel's displays, output and panels.

    Parameters
    ----------
    shell : InteractiveShell
        IPython's shell; with a `kernel` if it runs in one.
    cells : CellRegistry

    Attributes
    ----------
    recorder : Recorder or None
        Of the present session, or of the last one: its graph can still be looked at.
    output : CellOutput or None
    cards : Cards
    panels : Panels
    """

    def __init__(self, shell: InteractiveShell, cells: CellRegistry = registry) -> None:
        self.shell = shell
        self.kernel: Any = getattr(shell, "kernel", None)
        self.recorder: Recorder | None = None
        self.output: CellOutput | None = None
        self._cell_runs = cells
        self._making = threading.Lock()
        self._cards: Cards | None = None
        self._panels: Panels | None = None
        self._listeners: list[Callable[[], None]] = [prune]
        self._announcement: Any = None
        self._running: dict[str, Any] | None = None  # the parent message of the cell that runs now
        self._running_lock = threading.Lock()
        self._between_cells: dict[str, dict[str, Any]] = {}  # updates of displays while no cell ran

    # --- life

    def install(self) -> None:
        """Take over the display of refs, the output of tasks, and the requests of panels."""
        hooks.display_ref = self._display_ref
        hooks.spell_option, hooks.inputs_in_words, hooks.before_error = as_flag, _inputs_in_words, self.show_output
        self._texts.for_type(ObjectRef, self._print_ref)
        if self.kernel is None:
            return
        hooks.live_display = self._live_display
        displays = self.shell.display_formatter.ipython_display_formatter
        displays.for_type(ObjectRef, lambda ref: self.cards.show(ref, self.kernel.get_parent("shell")))
        self.kernel.control_handlers[pm.REQUEST_TYPE] = self._on_request
        self.shell.events.register("pre_run_cell", self._before_cell)
        self.shell.events.register("post_run_cell", self._after_cell)
        driver_output.taken_over_by = self.follow
        self._follow_present_session()
        from comm import create_comm
        self._announcement = create_comm(target_name=pm.ANNOUNCE_TARGET,
                                         data={"version": self.version, "protocol": pm.VERSION})

    def uninstall(self) -> None:
        """Undo `install`. Output of a session that goes on is printed without regard to cells from now on."""
        hooks.display_ref = None
        hooks.spell_option, hooks.inputs_in_words, hooks.before_error = hooks.as_option, hooks.no_inputs, hooks.show_output
        self._texts.pop(ObjectRef, None)
        if self.kernel is None:
            return
        hooks.live_display = None
        self.shell.display_formatter.ipython_display_formatter.pop(ObjectRef, None)
        self.kernel.control_handlers.pop(pm.REQUEST_TYPE, None)
        self.shell.events.unregister("pre_run_cell", self._before_cell)
        self.shell.events.unregister("post_run_cell", self._after_cell)
        if driver_output.taken_over_by == self.follow:
            driver_output.taken_over_by = None
        if self._announcement is not None:
            self._announcement.close()
        if self.recorder is not None:
            self.recorder.stop()
        if self.output is not None:
            self.output.stop()
            session = sessions.current_or_none()
            if session is not None and session.config.log_to_driver:
                driver_output.start(session)

    def follow(self, session: Session) -> bool:
        """A driver's session has begun; True: its output is shown here."""
        if self.recorder is None or self.recorder.session is not session:
            from .recorder import Recorder
            self.recorder = Recorder(session, self._cell_runs, self._on_change)
            self.panels.attach(self.recorder)
            self.output = None
            if session.config.log_to_driver:
                driver_output.stop(session)  # it prints already if the session is older than the extension
                self.output = CellOutput(self.kernel, self._cell_runs, self.cards.on_text)
                self.output.start(session)
        return True

    def _follow_present_session(self) -> None:
        session = sessions.current_or_none()
        if session is not None and not session.is_worker:
            self.follow(session)

    # --- for the others

    @property
    def _texts(self) -> Any:
        return self.shell.display_formatter.formatters["text/plain"]

    @property
    def cards(self) -> Cards:
        with self._making:
            if self._cards is None:
                from .card import Cards
                self._cards = Cards(self._cell_runs, lambda: self.recorder, self.publish if self.kernel else None,
                                    self.shell.user_ns)
                self._listeners.append(self._cards.on_change)
            return self._cards

    @property
    def panels(self) -> Panels:
        with self._making:
            if self._panels is None:
                from .comm import Panels
                self._panels = Panels(self)
            return self._panels

    def _display_ref(self, ref: ObjectRef) -> Bundle:
        return self.cards.mimebundle(ref)

    def _print_ref(self, ref: ObjectRef, printer: Any, cycle: bool) -> None:
        """The text of a ref: in full by itself, in short in a list or a dict."""
        if len(printer.stack) <= 1:
            printer.text(self._display_ref(ref)["text/plain"])
            return
        printer.n_refs = getattr(printer, "n_refs", 0) + 1
        printer.text(self.cards.in_short(ref, asks=printer.n_refs <= N_REFS_NAMED))

    @property
    def version(self) -> str:
        """The package's version."""
        try:
            return version("cellmesh")
        except PackageNotFoundError:  # run from a source tree
            return "0+source"

    @property
    def namespace(self) -> dict[str, Any]:
        """The notebook's variables."""
        return self.shell.user_ns

    def show_output(self, task: int) -> None:
        """See `hooks.show_output`."""
        if self.output is not None:
            self.output.catch_up(task)
        else:
            hooks.show_output(task)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener()` from a thread of ours whenever the graph has changed, at most 30 times a second.

        Returns the function that ends it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _on_change(self) -> None:
        for listener in list(self._listeners):
            listener()

    def send(self, kind: str, content: dict[str, Any], parent: dict[str, Any] | None = None, topic: str = "",
             buffers: list[memoryview] | None = None) -> None:
        """Publish a message on iopub; from any thread."""
        self.kernel.session.send(self.kernel.iopub_socket, kind, content, parent=parent, ident=(topic or kind).encode(),
                                 buffers=buffers)

    def send_comm(self, comm_id: str, data: dict[str, Any], buffers: list[memoryview]) -> None:
        """Publish a message on a comm that a front end has opened."""
        self.send("comm_msg", {"comm_id": comm_id, "data": data}, topic=f"comm-{comm_id}", buffers=buffers)

    def publish(self, bundle: Bundle, display_id: str, update: bool, parent: dict[str, Any]) -> None:
        """Show a display that can be updated, or update it; the latter from any thread."""
        if not update:  # what was printed before stands above it
            sys.stdout.flush()
            sys.stderr.flush()
        content = {"data": bundle, "metadata": {}, "transient": {"display_id": display_id}}
        if not update:
            self.send("display_data", content, parent)
            return
        # Notebook runners (nbclient) take updates of any display, but only from the cell that runs.
        with self._running_lock:
            if self._running is None:
                self._between_cells[display_id] = content
            self.send("update_display_data", content, self._running or parent)

    def _live_display(self, display_id: str) -> Callable[[dict[str, Any]], None]:
        parent, is_shown = self.kernel.get_parent("shell"), False

        def publish(bundle: dict[str, Any]) -> None:
            nonlocal is_shown
            update, is_shown = is_shown, True
            self.publish(bundle, display_id, update, parent)

        return publish

    # --- cells and requests

    def _before_cell(self, info: object) -> None:
        if was_interrupted_before():  # `CellEvents` ends it
            return
        with self._running_lock:
            self._running = self.kernel.get_parent("shell")
            for content in self._between_cells.values():
                self.send("update_display_data", content, self._running)
            self._between_cells.clear()

    def _after_cell(self, result: object) -> None:
        with self._running_lock:
            self._running = None
        self._follow_present_session()  # one that does not log to the driver has not been announced

    def _on_request(self, stream: Any, ident: Any, message: dict[str, Any]) -> None:
        """A request on the control channel; runs in the control thread."""
        thread = threading.get_ident()

        def reply(content: dict[str, Any]) -> None:
            if threading.get_ident() == thread:
                send(content)
            else:
                stream.io_loop.add_callback(send, content)

        def send(content: dict[str, Any]) -> None:
            self.kernel.session.send(stream, pm.REPLY_TYPE, content, parent=message, ident=ident)

        self.panels.answer(message["content"], reply)
        stream.io_loop.add_callback(self._say_busy)  # after ipykernel has published that the request is done

    def _say_busy(self) -> None:
        # Under the lock: a cell that ends now says "idle" after `_after_cell`, so after this.
        with self._running_lock:
            if self._running is not None:
                self.send("status", {"execution_state": "busy"}, self._running)


def _inputs_in_words(task: int, name: str) -> str:
    from .failed_inputs import inputs_in_words
    return inputs_in_words(task, name)


_hosts: dict[InteractiveShell, Host] = {}


def install(shell: InteractiveShell) -> Host:
    """Make the kernel's host, once."""
    if shell not in _hosts:
        _hosts[shell] = Host(shell)
        _hosts[shell].install()
    return _hosts[shell]


def uninstall(shell: InteractiveShell) -> None:
    """Undo `install`; harmless if there is nothing to undo."""
    host = _hosts.pop(shell, None)
    if host is not None:
        host.uninstall()


def current() -> Host | None:
    """The host of this process's shell, if the extension is loaded."""
    return next(iter(_hosts.values()), None)
