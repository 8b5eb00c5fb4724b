"""`cellmesh.progress(refs)`: one bar for many tasks, kept up to date while the caller does something else.

Nobody is told of each task that ends; a thread looks, a few times a second, at those that had not ended when it looked
last, and is gone when all have. What it shows goes where displays go: under the cell in a notebook, updated in place,
to the end of a terminal, and from a task to the driver.
"""

from __future__ import annotations

import builtins
import json
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import front_end
from ..exceptions import CellmeshError, SessionError, TaskError
from ..observe.history import names_of
from ..scheduler.sync.threads import ServiceThread
from ..session.current import of_client
from .progress_text import Counts, Rate, View, html_of, plain_text, text_lines

if TYPE_CHECKING:
    from ..objstore._core import Client
    from ..refs import ObjectRef
    from ..session.session import Session

INTERVAL_S = 0.2  # between two looks at least
LOOKING_SHARE = 0.05  # of the time, with very many tasks
ERROR_CHARS = 300
UNKNOWN = "tasks"

Bundle = dict[str, Any]


class Looked(NamedTuple):
    """What a look has found."""

    groups: Mapping[str, Counts]
    is_over: bool
    error: str = ""


def progress(refs: ObjectRef | Iterable[Any], *, title: str = "") -> Progress:
    """A progress bar for tasks, by function: how many run, have ended and have failed, the rate and the time left.

    Shows itself where it is the last expression of a cell, or by `display(...)`, and goes on while other cells run.
    Iterating over it gives the values in the order of the refs, and shows the bar meanwhile.

    Parameters
    ----------
    refs : ObjectRef, or list, tuple, dict, set or other iterable of them
    title : str
        What stands before the bar; by default the function's name.

    Returns
    -------
    Progress

    Raises
    ------
    TypeError
        Something in `refs` is no ObjectRef.

    Examples
    --------
    >>> for value in cellmesh.progress([f.remote(i) for i in range(100)]):  # doctest: +SKIP
    ...     print(value)
    """
    return Progress(_refs_of(refs), title)


def _refs_of(refs: Any) -> list[ObjectRef]:
    from ..tasks.containers import every_ref
    from ..waiting import as_completed

    return (
        refs._refs if isinstance(refs, as_completed) else every_ref(refs, "progress")
    )  # iterating over the former would wait


class Progress:
    """What `progress` returns: displays itself, and gives the values.

    Attributes
    ----------
    refs : list of ObjectRef
    """

    _cellmesh_remedy = ": it has the refs as .refs, and list(...) of it gives their values"

    def __init__(self, refs: list[ObjectRef], title: str = "") -> None:
        self.refs = refs
        self._follower = Follower(look_at(refs), title, of_client(refs[0].client) if refs else None)

    def __len__(self) -> int:
        return len(self.refs)

    def __iter__(self) -> Iterator[Any]:
        self.show()
        try:
            for ref in self.refs:
                yield ref.client.get(ref)
        finally:
            self._follower.refresh()

    async def __aiter__(self) -> AsyncIterator[Any]:
        self.show()
        try:
            for ref in self.refs:
                yield await ref
        finally:
            self._follower.refresh()

    def show(self) -> None:
        """Display the bar here, unless it is on view already."""
        self._follower.show()

    def _ipython_display_(self) -> None:
        self.show()

    def __repr__(self) -> str:
        return plain_text(self._follower.view())


def look_at(refs: Iterable[ObjectRef]) -> Callable[[], Looked]:
    """A function that looks how far the tasks of refs are; it holds those that have not ended."""
    pending = list(dict.fromkeys(refs))
    if not pending:
        return lambda: Looked({UNKNOWN: Counts()}, True)
    client = pending[0].client
    names = names_of(client, {ref.creator for ref in pending}) if not client.closed else {}
    groups: dict[str, Counts] = {}
    for ref in pending:
        groups.setdefault(names.get(ref.creator, UNKNOWN), Counts()).total += 1
    error = ""

    def look() -> Looked:
        nonlocal pending, error
        is_over = client.closed
        try:
            ended, pending = client.wait(pending, len(pending), 0) if pending else ([], [])
            for ref in ended:
                state = client.info(ref)["state"]
                counts = groups[names.get(ref.creator, UNKNOWN)]
                setattr(counts, state, getattr(counts, state) + 1)
                if state == "failed" and not error:
                    error = error_of(ref)
            running = _running(client, pending)
        except SessionError:
            is_over, running = True, Counter()
        for _name, counts in groups.items():
            counts.running = 0
        for number, n in running.items():
            groups[names.get(number, UNKNOWN)].running += n
        return Looked(groups, is_over or not pending, error)

    return look


def error_of(ref: ObjectRef) -> str:
    """Why a task has failed, in a line; "" if it has not."""
    try:
        ref.client.get(ref, 0)
    except TaskError as error:
        text = f"{error.cause_type}: {error.message}"
    except CellmeshError as error:
        text = f"{type(error).__name__}: {error}"
    else:
        return ""
    return text.strip().partition("\n")[0][:ERROR_CHARS]


def _running(client: Client, pending: list[ObjectRef]) -> Counter[int]:
    """The tasks of these that run now, by number; of one with several refs, each counts."""
    if not pending:
        return Counter()
    busy = {worker["task"] for worker in client.clients() if worker["task"]}
    return Counter(ref.creator for ref in pending if ref.creator in busy)


class Follower:
    """Shows what `look` finds until it is over.

    Parameters
    ----------
    look : callable
        Returns a `Looked`; called by one thread at a time.
    title : str
    session : Session or None
        Where the display goes by, in a terminal.
    """

    def __init__(self, look: Callable[[], Looked], title: str, session: Session | None) -> None:
        self._look, self._title, self._session = look, title, session
        self._lock = threading.RLock()
        self._rate = Rate()
        self._began_s = time.monotonic()
        self._ended_s: float | None = None
        self._screen: Callable[[View], None] | None = None
        self._shown: View | None = None

    def view(self) -> View:
        """How far it is now."""
        with self._lock:
            looked = self._look()
            now = time.monotonic()
            if looked.is_over and self._ended_s is None:
                self._ended_s = now
            rate = self._rate.look(now, sum(counts.ended for counts in looked.groups.values()))
            groups = {name: Counts(**vars(counts)) for name, counts in looked.groups.items()}
            return View(groups, self._title, rate, (self._ended_s or now) - self._began_s, looked.is_over, looked.error)

    def show(self) -> None:
        """Display it, once, and keep it up to date by a thread that ends when it is over."""
        with self._lock:
            if self._screen is not None:
                return
            self._screen = screen(self._session)
        _shown.add(self)
        self.refresh()
        if not self._is_shown_over:
            ServiceThread(self._follow, "cellmesh-progress").start()

    def refresh(self) -> None:
        """Display how far it is now, if it is on view and that is anything new."""
        with self._lock:
            if self._screen is None or self._is_shown_over:
                return
            view = self.view()
            if (
                self._shown is None
                or view.is_over
                or view.groups != self._shown.groups
                or view.rate != self._shown.rate
            ):
                self._shown = view
                self._screen(view)

    @property
    def _is_shown_over(self) -> bool:
        return self._shown is not None and self._shown.is_over

    def _follow(self) -> None:
        pause = INTERVAL_S
        while not self._is_shown_over:
            time.sleep(pause)
            began = time.thread_time()
            self.refresh()
            pause = max(INTERVAL_S, (time.thread_time() - began) / LOOKING_SHARE)


# Followers on view, while anything refers to them: their threads, or what they show the progress of.
_shown: weakref.WeakSet[Follower] = weakref.WeakSet()


def refresh_shown() -> None:
    """Have all that are on view show how far it is now: what stands under a cell when it ends is what is saved."""
    for follower in list(_shown):
        follower.refresh()


# ---- where it is shown


def screen(session: Session | None) -> Callable[[View], None]:
    """A function that displays a view, and from the second call on updates that display."""
    display_id = os.urandom(8).hex()
    if (publish := front_end.current.live_display(display_id)) is not None:
        return lambda view: publish(_bundle(view))
    if session is not None and session.is_worker:
        return _displays(vars(builtins)["display"], display_id)
    if _has_kernel():
        from IPython.display import display

        return _displays(display, display_id)
    return _Terminal(session, display_id)


def _bundle(view: View) -> Bundle:
    return {"text/plain": plain_text(view), "text/html": html_of(view)}


def _displays(display: Callable[..., Any], display_id: str) -> Callable[[View], None]:
    from ..scheduler.ipc.messages import PROGRESS_MIME

    is_shown = False

    def show(view: View) -> None:
        nonlocal is_shown
        bar = {"id": display_id, "text": text_lines(view)[0], "closed": view.is_over}
        display({**_bundle(view), PROGRESS_MIME: bar}, raw=True, display_id=display_id, update=is_shown)
        is_shown = True

    return show


def _has_kernel() -> bool:
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class _Terminal:
    """Bars at the end of a terminal, drawn with those of tasks."""

    def __init__(self, session: Session | None, display_id: str) -> None:
        self._session, self._id = session, display_id

    def __call__(self, view: View) -> None:
        from ..scheduler.ipc.messages import PROGRESS_MIME, WorkerOutput

        for number, line in enumerate(text_lines(view)):
            bar = {"id": f"{self._id}.{number}", "text": line, "closed": view.is_over}
            if self._session is None:
                print(line)
            else:
                self._session.node.link.tell(
                    WorkerOutput(
                        0,
                        self._session.client.origin,
                        "display",
                        os.getpid(),
                        bundle=json.dumps({"data": {PROGRESS_MIME: bar}}),
                    )
                )
