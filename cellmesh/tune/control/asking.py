"""The questions to the searcher that are open, and whether it may have more configurations."""

from __future__ import annotations

from collections import deque


class Asking:
    """What the searcher was asked, and what it has heard since."""

    has_more: bool | None
    n_open: int

    def __init__(self) -> None:
        self.has_more = True  # None: the searcher waits for a result
        self.n_open = 0  # suggestions that have not come yet
        self._n_heard = 0  # results and ends that the searcher has been told of
        self._asked: deque[int] = deque()  # how many when each open question was asked

    def restart(self) -> None:
        """Another controller goes on, and nothing was asked by this one."""
        self.n_open = 0
        self._asked.clear()

    def ask(self) -> None:
        """A question more."""
        self.n_open += 1
        self._asked.append(self._n_heard)

    def hear(self) -> None:
        """The searcher is told of something, and may know more now."""
        self._n_heard += 1
        if self.has_more is None:
            self.has_more = True

    def answered(self) -> bool:
        """The searcher has answered the oldest question; whether it has heard of a result since that was asked."""
        self.n_open -= 1
        return bool(self._asked) and self._asked.popleft() < self._n_heard

    def none_left(self, later: bool) -> None:
        """It has answered that there is none; with `later`, none until it hears of another result."""
        has_heard_since = self.answered()
        if self.has_more is not False and not (later and has_heard_since):
            self.has_more = None if later else False
