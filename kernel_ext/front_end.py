"""The notebook as `cellmesh.front_end.current`: it answers what the modules below ask, from the host and the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..front_end import Program
from ..session.current import current
from .cells.failure import as_flag
from .cells.registry import registry

if TYPE_CHECKING:
    from ..objstore._core import Ref
    from ..observe.learning import LearningRun
    from ..session.session import Session
    from ..tune.experiment import Experiment
    from .host import Host


class Notebook(Program):
    """The front end of a shell in which the extension is loaded."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @property
    def shows_experiments(self) -> bool:
        """In a kernel, as cards."""
        return self._host.kernel is not None

    @property
    def detaches_experiments(self) -> bool:
        """Where somebody sits, who may restart the kernel; what a program runs to save it ends with the program."""
        return self._host.is_interactive

    def session_started(self, session: Session) -> None:
        """What the cell that starts a session submits belongs to that cell already."""
        from .cells.events import attach

        attach(session)

    def takes_output(self, session: Session) -> bool:
        """See `FrontEnd`."""
        return self._host.follow(session)

    def label_of(self, name: str, origin: int) -> str:
        """See `FrontEnd`."""
        return self._host.label_of(name, origin)

    def before_error(self, task: int) -> None:
        """See `FrontEnd`."""
        self._host.show_output(task)

    def inputs_in_words(self, task: int, name: str) -> str:
        """See `FrontEnd`."""
        from .cells.failed_inputs import inputs_in_words

        return inputs_in_words(task, name)

    def spell_option(self, option: str, name: str, origin: int) -> str:
        """Tasks of cells have flags."""
        return as_flag(option, name, origin)

    def display_ref(self, ref: Ref) -> Any:
        """A card."""
        return self._host.display_ref(ref)

    def held(self) -> Iterable[tuple[str, Any]]:
        """By IPython, and by cards of what has not ended."""
        yield from self._host.kept_results.held()
        yield from (("a card that follows its state", ref) for ref in self._host.cards.followed())

    def live_display(self, display_id: str) -> Callable[[dict[str, Any]], None] | None:
        """See `FrontEnd`."""
        return self._host.iopub.live_display(display_id) if self._host.kernel is not None else None

    @contextmanager
    def submitting_for(self, experiment: str, begins: bool = False) -> Iterator[None]:
        """It stands under the cell in which the experiment has begun, and goes on when a cell is stopped."""
        client = current().client
        before, client.origin = client.origin, registry.for_experiment(experiment, begins).number
        try:
            yield
        finally:
            client.origin = before

    def experiment_started(self, experiment: Experiment) -> None:
        """A card."""
        self.display_experiment(experiment)

    def experiment_ended(self, experiment: Experiment) -> None:
        """Its cards are as they will be saved."""
        if self._host.kernel is not None:
            self._host.experiment_cards.refresh(experiment.path)

    def display_experiment(self, experiment: Experiment) -> None:
        """See `FrontEnd`."""
        if self._host.kernel is not None:
            self._host.experiment_cards.show(experiment, self._host.kernel.get_parent("shell"))

    def learning_changed(self, run: LearningRun) -> None:
        """A card under the cell that trains, and the panel's view; in a terminal, a line."""
        self._host.learning_changed(run)

    def display_learning(self, run: LearningRun) -> bool:
        """A card."""
        if self._host.kernel is not None:
            self._host.learning_cards.show(run, self._host.kernel.get_parent("shell"))
        return self._host.kernel is not None
