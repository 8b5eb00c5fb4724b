"""A cell that runs in ranks, until all of them have ended: who has failed, and who waits for whom.

The local scheduler knows the state of each call, and the actor at which members of a group meet knows who waits there.
Who waits for a rank that will not come, as it has failed, has ended the cell or is not part of it, is interrupted.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ...exceptions import TaskCancelledError, TaskError
from ...groups.meeting import meeting_name
from ...objects import get
from ...observe.stacks import stack_of
from ...session.current import current
from ...session.futures import without_frames
from ...submit.actor import find_actor
from ...submit.cancel import cancel_task
from ...train.exceptions import GroupBrokenError
from ...train.failures import first_cause
from ...waiting import wait
from .folding import in_words

if TYPE_CHECKING:
    from ...groups.actor_group import ActorGroup
    from ...objstore._core import Client
    from ...refs import ObjectRef
    from ...train.rounds import Wait
    from .collectives import Collectives
    from .rank import Rank
    from .strip import Strip

LOOKS_EVERY_S = 0.2
TELLS_AFTER_S = 2.0  # that ranks wait for others
STAYS_SO_S = 0.4  # before it is taken for certain, as a look sees one rank after the other
SLOWEST_S = 1.0  # a rank that the others have waited for so long is named at the end
SLOWEST_SHARE = 0.2  # and this share of the cell's time
STOPS_WITHIN_S = 5.0  # a rank that is interrupted; longer only in C code that does not look


class CellInRanks:
    """The calls of one cell, by rank.

    Parameters
    ----------
    group : ActorGroup
        All ranks, also those that do not run the cell.
    filename : str
        What the cell is compiled with.
    strip : Strip or None
    collectives : Collectives or None
    """

    def __init__(
        self, group: ActorGroup[Rank], filename: str, strip: Strip | None, collectives: Collectives | None
    ) -> None:
        self._group, self._strip, self._collectives = group, strip, collectives
        self._line = re.compile(rf'File "{re.escape(filename)}", line (\d+)')
        self.calls: dict[int, list[ObjectRef]] = {}
        self.errors: dict[int, Exception] = {}  # in the order in which they have come
        self.finished: set[int] = set()
        self._left: list[int] = []
        self._stopped: set[int] = set()
        self._broken: GroupBrokenError | None = None
        self._seen: tuple[set[int], dict[int, Wait], list[int]] | None = None  # by the last look
        self._seen_at = 0.0  # for the first time
        self._awaited: Counter[int] = Counter()  # looks at which all that waited did so for this rank

    def add(self, rank: int, refs: list[ObjectRef]) -> None:
        """The call of a rank, as the refs of its results."""
        self.calls[rank] = refs
        self._left.append(rank)
        if self._strip is not None:
            self._strip.belongs(refs[0], rank)

    @property
    def first_error(self) -> Exception | None:
        """What the others follow from."""
        return self._broken or (self.errors[first_cause(self.errors)] if self.errors else None)

    def wait(self) -> None:
        """Wait for all ranks."""
        begun = time.monotonic()
        n_looks = 0
        while not self._have_ended(LOOKS_EVERY_S):
            n_looks += 1
            self._look(tells=time.monotonic() - begun >= TELLS_AFTER_S)
        if n_looks and not self.errors and not self._stopped:
            self._tell_slowest(time.monotonic() - begun, n_looks)

    def stop(self, client: Client) -> None:
        """Interrupt all ranks, also one whose call was just being sent, and wait for them."""
        self._interrupt(self._left)
        for ref in client.children(0, client.origin):
            cancel_task(ref)
        self._wait_for_stopped()

    def _have_ended(self, timeout_s: float) -> bool:
        """Whether all ranks have ended; waits for that long for those that have not."""
        if self._left:
            last = [self.calls[rank][-1] for rank in self._left]
            wait(last, num_returns=len(last), timeout=timeout_s)
        for rank in list(self._left):
            ref = self.calls[rank][-1]
            if not ref.client.ready(ref):
                continue
            self._left.remove(rank)
            if ref.client.info(ref)["state"] == "finished":
                self.finished.add(rank)
                continue
            error = ref.client.get([ref], 0, return_exceptions=True)[0]
            if not (rank in self._stopped and isinstance(error, (TaskCancelledError, GroupBrokenError))):
                self.errors[rank] = without_frames(error)
        return not self._left

    def _look(self, tells: bool) -> None:
        """Interrupt who waits for a rank that will not come, and say who waits for whom."""
        left = set(self._left)  # before the look at who waits: a rank that had ended before that will not come
        waits = self._collectives.waits() if self._collectives is not None else {}
        at_barrier = self._at_barrier()
        if self._seen != (left, waits, at_barrier):
            self._seen, self._seen_at = (left, waits, at_barrier), time.monotonic()
        places = {"barrier()": at_barrier}
        for rank, called in waits.items():
            places.setdefault(called.what, []).append(rank)
        waiting = {place: some for place, ranks in places.items() if (some := [r for r in ranks if r in left])}
        absent = [rank for rank in range(len(self._group)) if not any(rank in some for some in waiting.values())]
        awaited = left.intersection(absent)
        if waiting and len(awaited) == 1:
            self._awaited.update(awaited)
        if waiting and self.errors:
            failed = next(iter(self.errors))
            for place, some in waiting.items():
                self._stop(some, f"interrupted at {place}: rank {failed} has failed")
        elif waiting and not awaited and time.monotonic() - self._seen_at >= STAYS_SO_S:
            part = [rank for rank in absent if rank in self.calls]
            why = f"{in_words(part)} ended the cell without it" if part else ""
            out = [rank for rank in absent if rank not in self.calls]
            also = f"{in_words(out)} {'does' if len(out) == 1 else 'do'} not run the cell" if out else ""
            for place, some in waiting.items():
                elsewhere = "others wait elsewhere" if len(waiting) > 1 else ""
                told = f"waited at {place} for ever: {' and '.join(filter(None, [why, also, elsewhere]))}"
                self._broken = self._broken or GroupBrokenError(f"{in_words(some)} {told}")
                self._stop(some, told)
        elif waiting and awaited and tells and self._strip is not None:
            who = " and ".join(
                f"{in_words(some)} {'waits' if len(some) == 1 else 'wait'} at {place}"
                for place, some in waiting.items()
            )
            self._strip.waits(f"{who} for {', '.join(self._where(rank) for rank in absent if rank in left)}")
        elif self._strip is not None:
            self._strip.waits("")

    def _tell_slowest(self, lasted_s: float, n_looks: int) -> None:
        """Name the rank for which the others have waited, where that is one and was long."""
        for rank, n in self._awaited.most_common(1):
            awaited_s = lasted_s * n / n_looks
            if awaited_s >= max(SLOWEST_S, SLOWEST_SHARE * lasted_s):
                self.note(f"rank {rank} was the slowest: others waited {awaited_s:.0f} s of {lasted_s:.0f} s for it")

    def _stop(self, ranks: list[int], why: str) -> None:
        if told := [rank for rank in ranks if rank not in self._stopped]:
            self._interrupt(told)
            self.note(f"{in_words(told)} {why}")

    def _interrupt(self, ranks: list[int]) -> None:
        for rank in ranks:
            self._stopped.add(rank)
            cancel_task(self.calls[rank][-1])

    def _wait_for_stopped(self) -> None:
        end = time.monotonic() + STOPS_WITHIN_S
        while not self._have_ended(max(0.0, end - time.monotonic())):
            if time.monotonic() >= end:
                self.note(
                    f"{in_words(self._left)} {'does' if len(self._left) == 1 else 'do'} not stop within "
                    f"{STOPS_WITHIN_S:g} s, which code outside Python may keep from it: "
                    f"`%ranks restart {','.join(map(str, self._left))}` ends the process and makes the rank anew"
                )
                return

    def note(self, text: str) -> None:
        """Say something under the cell."""
        if self._strip is not None:
            self._strip.note(text)
        else:
            print(text)

    def line_of(self, text: str, last: bool) -> str:
        """The line of the cell in a traceback, or in a stack, which has the innermost frame first; "" for none."""
        found = self._line.findall(text)
        return f"line {found[-1 if last else 0]}" if found else ""

    def _at_barrier(self) -> list[int]:
        """The ranks that wait at `barrier()`."""
        member = self._group[0]._cellmesh_blueprint
        meeting = find_actor(current(), meeting_name(member.name, 0), member.namespace)
        return get(meeting.waiting.remote()) if meeting is not None else []

    def _where(self, rank: int) -> str:
        """A rank and the line in which it is, if that can be found out."""
        ref = self._group[rank]._cellmesh_ref
        known = ref.client.actor(*ref.client.actor_place(ref))
        line = ""
        if known is not None and known["pid"] and not known["node"]:
            try:
                line = self.line_of(stack_of(current().node.link, known["pid"]), last=False)
            except LookupError:  # it has just ended, or does not answer
                pass
        return f"rank {rank}{f' (in {line})' if line else ''}"


def error_in_words(error: Any) -> str:
    """What has been raised, in one line."""
    if isinstance(error, TaskError):
        return f"{error.cause_type}: {error.message}".splitlines()[0]
    return f"{type(error).__name__}: {error}".splitlines()[0]
