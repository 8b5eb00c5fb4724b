"""What a trial runs: a function of the configuration, or a class with a step."""

from __future__ import annotations

import functools
import inspect
import pickle
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeGuard

from ..objstore.annotations import get_signature
from ..session.scratch import scratch_folder
from . import reporting
from .checkpoint import Checkpoint
from .exceptions import StopTrial
from .records import Outcome, Saved
from .values import completed
from .yielding import as_batch_work

if TYPE_CHECKING:
    from ..submit.actor import ActorHandle


class Trainable:
    """A trial as a class: subclasses implement `step`, and what they need of the others.

    Attributes
    ----------
    config : dict
        The configuration.
    iteration : int
        Steps that have been made, those before a checkpoint included.
    """

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        self.config: dict[str, Any] = config or {}
        self.iteration = 0
        self.setup(self.config)

    @property
    def training_iteration(self) -> int:
        """Steps that have been made."""
        return self.iteration

    def setup(self, config: dict[str, Any]) -> None:
        """Called once, before the first step."""

    def step(self) -> dict[str, Any]:
        """One step; returns its metrics. `{"done": True}` among them ends the trial."""
        raise NotImplementedError(f"{type(self).__name__} has no step(): it returns the metrics of one step")

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | str | None:
        """Write what the trial can go on from into a folder, or return it as a dict."""
        raise NotImplementedError(f"{type(self).__name__} has no save_checkpoint()")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Go on from what `save_checkpoint` has written (the path of the folder) or returned (the dict)."""
        raise NotImplementedError(f"{type(self).__name__} has no load_checkpoint()")

    def cleanup(self) -> None:
        """Called once, after the last step."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take another configuration without being made again; False: it cannot."""
        return False

    @classmethod
    def can_save(cls) -> bool:
        """Whether it writes checkpoints."""
        return cls.save_checkpoint is not Trainable.save_checkpoint


def is_class(trainable: Any) -> TypeGuard[type[Trainable]]:
    """Whether it is a class with steps."""
    return isinstance(trainable, type) and issubclass(trainable, Trainable)


def check(trainable: Any) -> None:
    """`TypeError` if it is no trainable."""
    if not callable(trainable):
        raise TypeError(
            f"{trainable!r} is no trainable: it is a function of the configuration, or a subclass of tune.Trainable"
        )
    if isinstance(trainable, type) and not is_class(trainable):
        raise TypeError(
            f"{trainable.__name__} is no trainable: a class must be a subclass of tune.Trainable, whose step() returns "
            "metrics"
        )
    if not is_class(trainable):
        try:
            get_signature(trainable, follow_wrapped=False).bind({})
        except TypeError as error:
            name = getattr(trainable, "__name__", type(trainable).__name__)
            raise TypeError(
                f"{name} is no trainable: it is called with the configuration, {name}(config): {error}"
            ) from None
        except ValueError:  # it is compiled, and does not say
            return


def run_trial(
    trainable: Callable[[dict[str, Any]], Any] | type[Trainable] | bytes,
    checkpoint_every: int,
    checkpoint_at_end: bool,
    host: ActorHandle[Any],
    parts: tuple[Any, ...],
) -> tuple[Outcome, Saved | None, bytes | None]:
    """The task of an attempt: how it ended, and the checkpoint that it left, packed if it is on another machine.
    `parts`: those of an `Order`.
    """
    order = reporting.Order(*parts)
    with as_batch_work() if order.is_crowded else nullcontext():
        return _run(trainable, checkpoint_every, checkpoint_at_end, host, order)


def _run(
    trainable: Callable[[dict[str, Any]], Any] | type[Trainable] | bytes,
    checkpoint_every: int,
    checkpoint_at_end: bool,
    host: ActorHandle[Any],
    order: reporting.Order,
) -> tuple[Outcome, Saved | None, bytes | None]:
    config = completed(order.config, pickle.loads(order.code)) if order.code else order.config
    context = reporting.TrialContext(order, host, config)
    reporting.enter(context)
    try:
        run: Any = _opened(trainable) if isinstance(trainable, bytes) else trainable
        if is_class(run):
            return _run_class(run, checkpoint_every, checkpoint_at_end, context)
        returned: Any = run(config)
        if isinstance(returned, Mapping):
            context.report(returned, None)
        elif inspect.isgenerator(returned):
            metrics: Any
            for metrics in returned:
                context.report(metrics, None)
        elif isinstance(returned, (int, float)):
            raise TypeError(
                f"the trial returned {returned!r}: return {{'name': value}}, so that it is known what it is"
            )
    except StopTrial as stop:
        return ("paused" if stop.args == ("pause",) else "stopped"), None, None
    finally:
        reporting.enter(None)
    return "done", None, None


@functools.lru_cache(maxsize=1)
def _opened(data: bytes) -> Any:
    """A trainable that an earlier session has stored."""
    try:
        return pickle.loads(data)
    except Exception as error:
        raise RuntimeError(
            "the stored trainable cannot be opened: give it again, tune.resume(name, trainable)"
        ) from error


def _run_class(
    trainable: type[Trainable], checkpoint_every: int, checkpoint_at_end: bool, context: reporting.TrialContext
) -> tuple[Outcome, Saved | None, bytes | None]:
    it = trainable(context.config)
    try:
        start = context.checkpoint()
        if start is not None:
            it.iteration = context.iteration
            it.load_checkpoint(_loadable(start))
        while True:
            metrics = it.step()
            if not isinstance(metrics, Mapping):
                raise TypeError(
                    f"{type(it).__name__}.step() returned {type(metrics).__name__}, and a step returns a dict of "
                    f"metrics"
                )
            it.iteration += 1
            if checkpoint_every and it.iteration % checkpoint_every == 0:
                with _Saving(it) as saving:
                    context.report(metrics, saving.checkpoint)
            else:
                context.report(metrics, None)
    except StopTrial as stop:
        outcome: Outcome = "paused" if stop.args == ("pause",) else "stopped"
        if not it.can_save() or not (outcome == "paused" or checkpoint_at_end):
            return outcome, None, None
        with _Saving(it) as saving:
            return outcome, *context.save(saving.checkpoint)
    finally:
        it.cleanup()


class _Saving:
    """A folder for the time in which a trainable writes its checkpoint and somebody copies it."""

    def __init__(self, it: Trainable) -> None:
        self._it = it
        self._folder = scratch_folder()

    def __enter__(self) -> _Saving:
        folder = self._folder.__enter__()
        returned = self._it.save_checkpoint(folder)
        self.checkpoint: Any = returned if isinstance(returned, dict) else Checkpoint(folder)
        return self

    def __exit__(self, *error: Any) -> None:
        self._folder.cleanup()


def _loadable(start: Checkpoint) -> Any:
    try:
        return start.value
    except TypeError:
        return start.path


# ---- wrappers that users put around
def with_parameters(trainable: Any, **parameters: Any) -> Any:
    """The trainable with values that all trials share: each is stored once, however large.

    Parameters
    ----------
    trainable : callable or class
        A function `f(config, **parameters)`, or a `Trainable` whose `setup(config, **parameters)` takes them.
    """
    from ..objects import put

    refs = {name: put(value) for name, value in parameters.items()}
    wrapped: Any
    if is_class(trainable):
        wrapped = type(trainable.__name__, (trainable,), {"setup": _setup_with(trainable, refs)})
    else:
        _check_parameters(trainable, parameters)

        @functools.wraps(trainable)
        def with_values(config: dict[str, Any]) -> Any:
            from ..objects import get

            return trainable(config, **dict(zip(refs, get(list(refs.values())), strict=True)))

        wrapped = with_values

    wrapped._cellmesh_resources = getattr(trainable, "_cellmesh_resources", None)
    return wrapped


def _setup_with(trainable: type[Trainable], refs: dict[str, Any]) -> Callable[..., None]:
    def setup(self: Any, config: dict[str, Any]) -> None:
        from ..objects import get

        trainable.setup(self, config, **dict(zip(refs, get(list(refs.values())), strict=True)))

    return setup


def _check_parameters(trainable: Callable[..., Any], parameters: Mapping[str, Any]) -> None:
    try:
        signature = get_signature(trainable)
        signature.bind({}, **parameters)
    except TypeError as error:
        raise TypeError(f"with_parameters: {getattr(trainable, '__name__', trainable)}(config, ...): {error}") from None
    except ValueError:
        return  # Python cannot tell


def with_resources(trainable: Any, resources: Any) -> Any:
    """The trainable with the resources that each of its trials takes: {"cpu": 2, "gpu": 1}, or others by name; a
    `PlacementGroupFactory`; or a function of the configuration that returns one of those.
    """
    wrapped: Any
    if is_class(trainable):
        wrapped = type(trainable.__name__, (trainable,), {})
    else:

        @functools.wraps(trainable)
        def same(*args: Any, **kwargs: Any) -> Any:
            return trainable(*args, **kwargs)

        wrapped = same

    wrapped._cellmesh_resources = resources
    return wrapped
