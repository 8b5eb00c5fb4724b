"""What Train raises. The tree's root is `cellmesh.exceptions.CellmeshError`.

TrainError
├── CollectiveMismatchError     ranks have called different collectives, or with different arrays
├── GroupBrokenError            the group cannot go on, so neither can this rank
│   └── RankDiedError           ... as the process of a rank died
└── RankFailedError             a rank's function raised
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..exceptions import CellmeshError, GroupMemberDiedError

if TYPE_CHECKING:
    from ..tune.results import Result


class TrainError(CellmeshError):
    """A training cannot be begun, or cannot go on; the text says why and what helps."""


class CollectiveMismatchError(TrainError, ValueError):
    """Ranks that met in a collective had not called the same one, or gave arrays that do not fit each other. All of
    them get this error, which names each rank with what it called.
    """


class GroupBrokenError(TrainError):
    """A rank has left the group, by an error or an interrupt, so a collective cannot be done."""


class RankDiedError(GroupBrokenError, GroupMemberDiedError):
    """The process of a rank died.

    Attributes
    ----------
    rank : int
        Whose; -1 where it is not known.
    pid : int
        Its process id; 0 where it is not known.
    """

    pid: int = 0

    def __init__(self, text: str = "", *, rank: int = -1, pid: int = 0) -> None:
        super().__init__(text, rank=rank)
        self.pid = pid


class RankFailedError(TrainError):
    """The function of a rank raised.

    Attributes
    ----------
    rank : int
        Whose.
    """

    rank: int = -1


class TrainingFailedError(TrainError):
    """A training has failed, and is not begun again. Its cause is what the rank raised, or a `RankDiedError`.

    Attributes
    ----------
    rank : int
        Whose failure ended it; -1 where it was none's.
    result : Result
        What had been reported until then.
    """

    rank: int = -1
    result: Result
