"""When ranks were in collectives: what their records in shared memory say, in time of the session. Pure."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from ..panel_messages import N_COLLECTIVES_MAX, Collective

if TYPE_CHECKING:
    from ...groups.times import CollectiveTimes

Workers = dict[int, tuple[int, bool]]  # by pid


class Watched:
    """The records of one group, and how many of each rank have been read.

    Parameters
    ----------
    times : CollectiveTimes
    """

    def __init__(self, times: CollectiveTimes) -> None:
        self.times = times
        self._n_read = [0] * len(times.begun)
        self._known: set[int] = set()  # processes that have been workers
        self._numbers: dict[int, int] = {}  # the number of each rank's latest span

    def has_ended(self, workers: Workers) -> bool:
        """Whether all processes that have been in it are gone, and somebody has. One that is not known yet has just
        begun."""
        pids = {pid for pid in self.times.pids.tolist() if pid}
        self._known |= pids & workers.keys()
        return bool(pids) and pids <= self._known and not any(workers.get(pid, (-1, False))[1] for pid in pids)

    def read(self, kept: Collectives, workers: Workers, origin_s: float) -> None:
        """Keep what is new.

        Parameters
        ----------
        kept : Collectives
        workers : dict
            The worker with a pid, and whether it lives.
        origin_s : float
            When the session began, as Unix time.
        """
        times = self.times
        for rank, n in enumerate(times.begun.tolist()):
            worker, _ = workers.get(int(times.pids[rank]), (-1, False))
            if worker < 0 or not n:
                continue
            # The latest that was read may have changed. Those that are written just now are left out.
            first = max(self._n_read[rank] - 1, n - len(times.records[rank]) + 2, 0)
            for i in range(first, n):
                began, ended, inside, calls, what = times.records[rank][i % len(times.records[rank])].tolist()
                is_known = i == self._n_read[rank] - 1
                number = self._numbers[rank] if is_known else None
                self._numbers[rank] = kept.put(
                    number,
                    Collective(
                        worker,
                        round(began - origin_s, 6),
                        round(ended - origin_s, 6) if ended else None,
                        round(inside, 6),
                        calls,
                        what.decode(errors="replace"),
                    ),
                )
            self._n_read[rank] = n


class Collectives:
    """The latest spans, by number."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[int, Collective]] = OrderedDict()  # in the order of their changes
        self._n = self.version = 0

    def put(self, number: int | None, span: Collective) -> int:
        """A new span, or what has become of one; its number."""
        if number is None:
            number = self._n
            self._n += 1
        known = self._kept.get(number)
        if known is None or known[1] != span:
            self.version += 1
            self._kept[number] = self.version, span
            self._kept.move_to_end(number)
            if len(self._kept) > N_COLLECTIVES_MAX:
                self._kept.popitem(last=False)
        return number

    def since(self, version: int, most: int) -> tuple[list[tuple[int, Collective]], int]:
        """What has changed after this version, the oldest `most` of it, and the version that this leads to."""
        new: list[tuple[int, tuple[int, Collective]]] = []
        for number, (changed, span) in reversed(self._kept.items()):
            if changed <= version:
                break
            new.append((number, (changed, span)))
        told = new[::-1][:most]
        return [(number, span) for number, (_, span) in told], told[-1][1][0] if told else version
