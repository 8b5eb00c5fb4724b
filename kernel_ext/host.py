"""The host: everything of cellmesh in a kernel except the magics. `%load_ext` makes it, `%unload_ext` undoes it.

The host follows the sessions of the process. A session may begin before or after the extension is loaded, and others
may follow; each gets a recorder, and its output goes to cells. What needs numpy is imported when there is something to
show, so `%load_ext` is quick. Outside a kernel (IPython in a terminal) there is no front end to talk to, and refs show
themselves as text.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .. import front_end
from ..refs import ObjectRef
from ..session.current import current_or_none
from . import panel_messages as pm
from .cells.interactive import is_interactive
from .cells.interrupts import was_interrupted_before
from .cells.registry import CellRegistry, registry
from .front_end import Notebook
from .iopub import Iopub
from .kept_results import KeptResults

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

    from ..groups.ref_group import RefGroup
    from ..observe.learning import LearningRun
    from ..session.session import Session
    from ..submit.actor import ActorHandle
    from .cards.actor_card import ActorCards
    from .cards.card import Bundle, Cards
    from .cards.experiment_card import ExperimentCards
    from .cards.group_card import GroupCards
    from .cards.learning_card import LearningCards
    from .cards.learning_line import LearningLines
    from .cells.registry import Cell
    from .graph.recorder import Recorder
    from .output.under_cell import CellOutput
    from .panel.requests import Panels
    from .ranks.folding import View
    from .ranks.strip import Strip


SHORT_NAME = re.compile(r"[\w ,.-]{1,24}")  # no line of code
GROUP = "cellmesh.groups.ref_group", "RefGroup"
HANDLE = "cellmesh.submit.actor", "ActorHandle"  # by name: importing it takes longer than loading the extension should
N_REFS_NAMED = 50  # refs of a list whose names are looked for in the event ring, which takes milliseconds


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
    kept_results : KeptResults
    cards : Cards
    panels : Panels
    """

    def __init__(self, shell: InteractiveShell, cells: CellRegistry = registry) -> None:
        self.shell = shell
        self.kernel: Any = getattr(shell, "kernel", None)
        self.iopub = Iopub(self.kernel)
        self.kept_results = KeptResults(shell)
        self.recorder: Recorder | None = None
        self.output: CellOutput | None = None
        self._cell_runs = cells
        self.front_end = Notebook(self)
        self._found: front_end.FrontEnd = front_end.current
        self._making = threading.Lock()
        self._cards: Cards | None = None
        self._actor_cards: ActorCards | None = None
        self._group_cards: GroupCards | None = None
        self._experiment_cards: ExperimentCards | None = None
        self._learning_cards: LearningCards | None = None
        self._learning_lines: LearningLines | None = None
        self._panels: Panels | None = None
        self._listeners: list[Callable[[], None]] = []
        self._announcement: Any = None

    # --- life

    def install(self) -> None:
        """Take over the display of refs, the output of tasks, and the requests of panels."""
        self._found, front_end.current = front_end.current, self.front_end
        self._texts.for_type(ObjectRef, self._print_ref)
        self._texts.for_type_by_name(*HANDLE, self._print_handle)
        self._texts.for_type_by_name(*GROUP, self._print_group)
        self.shell.events.register("post_run_cell", self._after_cell)
        self._follow_present_session()
        if self.kernel is None:
            return
        displays = self._displays
        displays.for_type(ObjectRef, lambda ref: self.cards.show(ref, self.kernel.get_parent("shell")))
        displays.for_type_by_name(
            *HANDLE, lambda handle: self.actor_cards.show(handle, self.kernel.get_parent("shell"))
        )
        displays.for_type_by_name(*GROUP, lambda refs: self.group_cards.show(refs, self.kernel.get_parent("shell")))
        self.kernel.control_handlers[pm.REQUEST_TYPE] = self._on_request
        self.shell.events.register("pre_run_cell", self._before_cell)
        if self.is_interactive:  # programs that run notebooks would only warn of a comm that they do not know
            from comm import create_comm

            self._announcement = create_comm(
                target_name=pm.ANNOUNCE_TARGET, data={"version": self.version, "protocol": pm.VERSION}
            )

    def uninstall(self) -> None:
        """Undo `install`. Output of a session that goes on is printed without regard to cells from now on."""
        if front_end.current is self.front_end:
            front_end.current = self._found
        self._texts.pop(ObjectRef, None)
        self._texts.pop(".".join(HANDLE), None)
        self._texts.pop(".".join(GROUP), None)
        self.shell.events.unregister("post_run_cell", self._after_cell)
        if self.recorder is not None:
            self.recorder.stop()
        if self.kernel is None:
            return
        if self._panels is not None:
            self._panels.trials.stop()
            self._panels.learning.stop()
        self._displays.pop(ObjectRef, None)
        self._displays.pop(".".join(HANDLE), None)
        self._displays.pop(".".join(GROUP), None)
        self.kernel.control_handlers.pop(pm.REQUEST_TYPE, None)
        self.shell.events.unregister("pre_run_cell", self._before_cell)
        if self._announcement is not None:
            self._announcement.close()
        if self.output is not None:
            session = current_or_none()
            if session is not None:
                session.hear_printed()
            self.output.stop()
            if session is not None and session.config.log_to_driver:
                from ..output import driver

                driver.start(session)

    def follow(self, session: Session) -> bool:
        """A driver's session has begun. True: its output is shown here; a terminal prints it as for any program."""
        if self.recorder is None or self.recorder.session is not session:
            from ..tasks.call_log import prune
            from .graph.recorder import Recorder

            if prune not in self._listeners:
                self._listeners.append(prune)
            self.recorder = Recorder(session, self._cell_runs, self._on_change)
            self.output = None
            if self.kernel is None:
                return False
            self.panels.attach(self.recorder)
            if session.config.log_to_driver:
                from ..output import driver
                from .output.under_cell import CellOutput

                driver.stop(session)  # it prints already if the session is older than the extension
                self.output = CellOutput(self.kernel, self._cell_runs, self.cards.on_text, self.iopub.update)
                self.output.start(session)
        return self.kernel is not None

    def _follow_present_session(self) -> None:
        session = current_or_none()
        if session is not None and not session.is_worker:
            self.follow(session)

    # --- for the others

    @property
    def _texts(self) -> Any:
        formatter: Any = self.shell.display_formatter
        return formatter.formatters["text/plain"]

    @property
    def _displays(self) -> Any:
        formatter: Any = self.shell.display_formatter
        return formatter.ipython_display_formatter

    @property
    def cards(self) -> Cards:
        with self._making:
            if self._cards is None:
                from .cards.card import Cards

                self._cards = Cards(
                    self._cell_runs,
                    lambda: self.recorder,
                    self.iopub.publish if self.kernel else None,
                    self.shell.user_ns,
                )
                self._listeners.append(self._cards.on_change)
            return self._cards

    @property
    def actor_cards(self) -> ActorCards:
        with self._making:
            if self._actor_cards is None:
                from .cards.actor_card import ActorCards

                self._actor_cards = ActorCards(
                    self._cell_runs,
                    lambda: self.recorder,
                    self.iopub.publish if self.kernel else None,
                    self.shell.user_ns,
                )
                self._listeners.append(self._actor_cards.on_change)
            return self._actor_cards

    @property
    def group_cards(self) -> GroupCards:
        with self._making:
            if self._group_cards is None:
                from .cards.group_card import GroupCards

                self._group_cards = GroupCards(lambda: self.cards, self.iopub.publish if self.kernel else None)
                self._listeners.append(self._group_cards.on_change)
            return self._group_cards

    @property
    def experiment_cards(self) -> ExperimentCards:
        with self._making:
            if self._experiment_cards is None:
                from .cards.experiment_card import ExperimentCards

                self._experiment_cards = ExperimentCards(self.iopub.publish)
            return self._experiment_cards

    @property
    def learning_cards(self) -> LearningCards:
        with self._making:
            if self._learning_cards is None:
                from .cards.learning_card import LearningCards

                self._learning_cards = LearningCards(self.iopub.publish)
            return self._learning_cards

    def learning_changed(self, run: LearningRun) -> None:
        """See `FrontEnd`."""
        if self.kernel is not None:
            self.learning_cards.changed(run, self.kernel.get_parent("shell"))
            self.panels.learning.changed(run)
            return
        if self._learning_lines is None:
            from .cards.learning_line import LearningLines

            self._learning_lines = LearningLines()
        self._learning_lines.changed(run)

    @property
    def panels(self) -> Panels:
        with self._making:
            if self._panels is None:
                from .panel.requests import Panels

                self._panels = Panels(self)
                self._listeners.append(self._panels.trials.look_for_new)
            return self._panels

    def display_ref(self, ref: ObjectRef) -> Bundle:
        """See `FrontEnd`."""
        return self.cards.mimebundle(ref)

    def _print_ref(self, ref: ObjectRef, printer: Any, cycle: bool) -> None:
        """The text of a ref: in full by itself, in short in a list or a dict."""
        if len(printer.stack) <= 1:
            printer.text(self.display_ref(ref)["text/plain"])
            return
        printer.n_refs = getattr(printer, "n_refs", 0) + 1
        printer.text(self.cards.in_short(ref, asks=printer.n_refs <= N_REFS_NAMED))

    def _print_handle(self, handle: ActorHandle, printer: Any, cycle: bool) -> None:
        """The text of an actor's handle: its card by itself, its repr in a list or a dict."""
        printer.text(repr(handle) if len(printer.stack) > 1 else self.actor_cards.mimebundle(handle)["text/plain"])

    def _print_group(self, refs: RefGroup[Any], printer: Any, cycle: bool) -> None:
        """The text of futures by rank: their card by itself, their repr in a list or a dict."""
        printer.text(repr(refs) if len(printer.stack) > 1 else self.group_cards.mimebundle(refs)["text/plain"])

    @property
    def is_interactive(self) -> bool:
        """Whether there is a kernel, and the cell that runs was sent by a front end with a person."""
        return self.kernel is not None and is_interactive(self.kernel.get_parent("shell"))

    @property
    def is_to_be_saved(self) -> bool:
        """Whether a program runs the notebook to save it."""
        return self.kernel is not None and not self.is_interactive

    def recorder_of(self, session: Session) -> Recorder | None:
        """The recorder of this session; None in a terminal."""
        return self.recorder if self.recorder is not None and self.recorder.session is session else None

    def strip(self, run: Cell, view: View) -> Strip | None:
        """See `CellHost`."""
        if self.output is None:
            return None
        from .ranks.strip import Strip

        return self.output.shows(Strip(self.iopub.publish, run.parent, view), run.number)

    @contextmanager
    def showing(self, strip: Strip | None) -> Iterator[None]:
        """See `CellHost`."""
        try:
            yield
        finally:
            if strip is not None and self.output is not None:
                self.output.settle(is_interactive=False)
                strip.finish()
            elif self.kernel is None and (session := current_or_none()) is not None and not session.client.closed:
                session.hear_printed()  # a terminal: below the next prompt it would stand in what is being typed
                self.show_output(0)

    def write_error(self, text: str, run: Cell) -> None:
        """Write to stderr under a run of a cell; from any thread."""
        if self.kernel is not None and run.parent:
            self.iopub.send_for_others("stream", {"name": "stderr", "text": text}, run.parent, "stream.stderr")
        else:
            print(text, file=sys.stderr, end="", flush=True)

    def label_of(self, name: str, origin: int) -> str:
        """What stands before what a task prints: its name, or the cell's number in place of a cell's first line."""
        is_body = name and name == self._cell_runs.body(origin)
        return self._cell_runs.cell(origin).label if is_body and not SHORT_NAME.fullmatch(name) else name

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
        """See `FrontEnd.before_error`."""
        if self.output is not None:
            self.output.catch_up(task)
        else:
            self._found.before_error(task)

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener()` from the thread of the recorder whenever the graph has changed, at most 30 times a second.

        Returns the function that ends it.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def _on_change(self) -> None:
        for listener in list(self._listeners):
            listener()

    # --- cells and requests

    def _before_cell(self, info: object) -> None:
        if was_interrupted_before():  # `CellEvents` ends it
            return
        self.iopub.cell_begins()

    def _after_cell(self, result: ExecutionResult | None) -> None:
        self.kept_results.cell_ends(result)
        if self.output is not None:
            self.output.settle(self.is_interactive)
        from ..output import progress

        progress.refresh_shown()
        if self._experiment_cards is not None:
            self._experiment_cards.refresh()
        if self._learning_cards is not None:
            self._learning_cards.refresh()
        if self._panels is not None:
            self._panels.trials.look_for_new()  # one that was attached, of which the graph says nothing
            self._panels.learning.look_again()  # the cards have paused what nobody asks for any more
        if self.kernel is not None:
            self.iopub.cell_ends()
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
        stream.io_loop.add_callback(self.iopub.say_busy)  # after ipykernel has published that the request is done
