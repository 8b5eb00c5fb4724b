"""`%ranks`: the group of processes in which the cells of `%%ranks` run."""

from __future__ import annotations

import argparse
import uuid
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ...api import get_runtime_context, kill
from ...exceptions import ObjectStoreFullError
from ...groups.making import grouped
from ...objects import get
from ...observe.tables import Rows
from ...session.current import current
from ...train import layout
from ...train.backends import MODULES
from ...util.preloading import preload
from ..cells.actor import LeftThere
from ..cells.analysis.read import CellError
from ..cells.events import attach
from ..cells.options import made_remote, options_given
from .auto import Auto
from .folding import in_words
from .rank import Rank

if TYPE_CHECKING:
    from ...groups.actor_group import ActorGroup
    from ...refs import ObjectRef
    from ..cells.host import CellHost
    from ..cells.remote import RemoteCells
    from .collectives import Collectives

MOST_LATER = 16  # ranks that are given a process group unasked, whose memory is made with them
ACTIONS = ("status", "auto", "here", "restart", "stop")


class Ranks:
    """The ranks of one notebook, if there are any.

    Attributes
    ----------
    cells : RemoteCells
    host : CellHost
    left : LeftThere
        Which names of the notebook stand for what ranks have.
    id : str
        Of the present ranks, for `left`.
    collectives : Collectives or None
        Of torch's process group, which `%ranks` has begun, or ranks begin when they have torch.
    auto : Auto
        Whether plain cells run in them.
    failed : dict
        Calls of the last cell that have failed, by rank, for `%inspect --pdb`.
    """

    def __init__(self, cells: RemoteCells, host: CellHost) -> None:
        self.cells, self.host, self.left = cells, host, LeftThere()
        self.id = ""
        self.collectives: Collectives | None = None
        self.auto = Auto(cells.shell)
        self.failed: dict[int, ObjectRef[Any]] = {}
        self._group: ActorGroup[Rank] | None = None
        self._environments: list[dict[str, str]] = []

    @property
    def group(self) -> ActorGroup[Rank]:
        """The ranks.

        Raises
        ------
        CellError
            There are none.
        """
        if self._group is not None and next(iter(self._group))._cellmesh_ref.client.closed:
            self._group = self.collectives = None
            also = "; plain cells run in the notebook again" if self.auto.is_on else ""
            self.auto.end()
            raise CellError(
                f"the ranks have ended with their session, and their variables too: %ranks 4 makes new ones{also}"
            )
        if self._group is None:
            raise CellError("there are no ranks yet: %ranks 4 makes four")
        return self._group

    def run(self, options: argparse.Namespace) -> Rows | None:
        """Run a line: options as `arguments.RANKS` parses them; the ranks as they are then.

        Raises
        ------
        CellError
            It says something that cannot be done.
        """
        __tracebackhide__ = True
        action, *rest = options.words or ["status"]
        if action.isdecimal() and not rest:
            self._start(int(action), options)
        elif action in ("auto", "here") and not rest:
            self._run_plain_cells(there=action == "auto")
            return None
        elif action == "restart" and len(rest) <= 1:
            self._restart(rest[0] if rest else "")
        elif action == "stop" and not rest:
            self._stop()
            return None
        elif action != "status" or rest:
            raise CellError(
                f"%ranks {' '.join(options.words)}: it takes how many ranks to make, or one of {', '.join(ACTIONS)}; "
                "restart may be followed by ranks: %ranks restart 1,3"
            )
        return self._table()

    def chosen(self, text: str | None) -> tuple[int, ...]:
        """The ranks that a text such as "0,2-3" means; all without one.

        Raises
        ------
        CellError
            There are no such ranks.
        """
        there = self.group.ranks
        wanted = parse_ranks(text) if text else there
        for rank in wanted:
            if rank not in there:
                raise CellError(f"there is no rank {rank}: the ranks are {in_words(there).split()[1]}")
        return wanted

    def failed_call(self, text: str) -> tuple[int, ObjectRef[Any]]:
        """A rank that has failed in the last cell, and its call: the one of this number; the first with "".

        Raises
        ------
        CellError
            There is none.
        """
        if not self.failed:
            raise CellError(
                "%inspect --pdb needs a variable that holds the future of a task that has failed, or its error "
                "(%inspect --pdb a), or a rank that has failed in the last cell of %%ranks; and the last error that "
                "was shown is none of a task whose frames were kept"
            )
        rank = int(text) if text else next(iter(self.failed))
        if rank not in self.failed:
            raise CellError(f"%inspect --pdb {text}: in the last cell of %%ranks {in_words(tuple(self.failed))} failed")
        return rank, self.failed[rank]

    def _start(self, n: int, options: argparse.Namespace) -> None:
        try:
            there = len(self.group)
        except CellError:  # none, which is as it should be
            there = 0
        if options.nodes is not None and (options.nodes < 1 or n % options.nodes):
            raise CellError(
                f"%ranks {n} --nodes {options.nodes}: on each machine are equally many, so {n} are on "
                f"{' or '.join(str(k) for k in range(1, n + 1) if n % k == 0)}"
            )
        if options.backend is not None:
            _check_backend(options)
        if there:
            _ask_to_end(there, n)
            self._stop()
        if options.backend is not None:
            preload(*MODULES)
        attach(current())
        variables = dict(options.env or {})
        rank_class = made_remote(Rank, options_given(options, "actor"))
        try:
            group: ActorGroup[Rank] = grouped(rank_class, n, (), {}, n_machines=options.nodes)
        except ValueError as error:
            raise CellError(f"%ranks {n}: {str(error).removeprefix('group(Rank): ')}") from None
        places = layout.places_of(group)
        environments = [of_rank | variables for of_rank in layout.variables(places, 0, uuid.uuid4().hex)]
        get(group.prepare.scatter(environments))
        here = {place.node for place in places} == {get_runtime_context().get_node_id()}
        later = options.backend is None and here and n <= MOST_LATER and not options.num_gpus and has_torch()
        collectives = None
        if options.backend is not None or later:
            from .collectives import Collectives

            collectives = Collectives(group, options.backend or "shared", here, later)
            try:
                collectives.begin()
            except ObjectStoreFullError:
                if options.backend is not None:
                    raise
                collectives = None  # torch says that there is no process group, should a cell want one
        self._group, self._environments, self.id = group, environments, uuid.uuid4().hex
        self.collectives = collectives

    def _restart(self, text: str) -> None:
        group = self.group
        dead = tuple(member.rank for member in group.members if member.state.startswith("dead"))
        ranks = self.chosen(text) if text else dead
        if not ranks:
            print("All ranks live. %ranks restart 1 ends rank 1 and makes it anew.")
        prepared: list[ObjectRef[None]] = []
        for rank in ranks:
            prepared.append(group.restart(rank).prepare.remote(self._environments[rank]))
        get(prepared)
        if ranks and self.collectives is not None:
            self.collectives.begin()

    def _run_plain_cells(self, there: bool) -> None:
        if there:
            self.auto.begin(where := in_words(self.group.ranks))
            print(
                f"Plain cells run in {where} from now on, as if %%ranks stood above them. Magics and !commands run "
                "in the notebook; %ranks here: all cells do again."
            )
        elif self.auto.is_on:
            self.auto.end()
            print("Plain cells run in the notebook again. %%ranks runs one in the ranks.")
        else:
            print("Plain cells run in the notebook, as ever. %ranks auto has them run in every rank.")

    def _stop(self) -> None:
        kill(self.group)
        if self.auto.is_on:
            self._run_plain_cells(there=False)
        self._group = self.collectives = None

    def _table(self) -> Rows:
        if self.auto.is_on:
            print("Plain cells run in these ranks (%ranks auto); %ranks here: in the notebook.")
        return self.group._cellmesh_table()


def _ask_to_end(there: int, n: int) -> None:
    """Ask whether the ranks that there are may end; CellError if not, or if nobody is there to answer."""
    are = "is 1 rank" if there == 1 else f"are {there} ranks"
    try:
        answer = input(f"There {are}. End {'it' if there == 1 else 'them'}, with all variables, and make {n}? [y/N] ")
    except (EOFError, NotImplementedError):  # a program runs the notebook
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise CellError(
            f"there {are} already: %ranks stop ends them, and their variables with them; what cells have returned stays"
        )


def has_torch() -> bool:
    """Whether torch can be imported, which is not done here."""
    return find_spec("torch") is not None


def _check_backend(options: argparse.Namespace) -> None:
    if not has_torch():
        raise CellError(f"--backend {options.backend} begins torch's process group: pip install 'cellmesh[train]'")
    if options.backend == "nccl" and (options.num_gpus or 0) < 1:
        raise CellError("--backend nccl is between GPUs, one for each rank: %ranks 2 --backend nccl --gpus 1")


def parse_ranks(text: str) -> tuple[int, ...]:
    """ "0,2-4" -> (0, 2, 3, 4).

    Raises
    ------
    CellError
        It says no ranks.
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        first, is_range, last = part.partition("-")
        if not first.strip().isdecimal() or (is_range and not last.strip().isdecimal()):
            raise CellError(f"{text!r} names no ranks: they are written as 0,2 or 0-3")
        found |= dict.fromkeys(range(int(first), int(last if is_range else first) + 1))
    if not found:
        raise CellError(f"{text!r} names no ranks: the first of a range comes first, as in 0-3")
    return tuple(found)
