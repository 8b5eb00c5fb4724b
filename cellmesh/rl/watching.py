"""How training is told to whoever watches it: the notebook's card and the panel's view *Learning*."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .. import front_end
from ..observe.learning import LearningRun, RunState
from ..text import in_one_line
from .exceptions import TrainingDivergedError

VALUE_CHARS = 40


def run_of(algorithm: str, config: Mapping[str, Any]) -> LearningRun:
    """The run of an algorithm with this configuration: "PPO on CartPole-v1", and its other options."""
    env = config["env"]
    name = env if isinstance(env, str) else getattr(env, "id", None) or getattr(env, "__name__", type(env).__name__)
    settings = ", ".join(
        f"{key}={in_one_line(repr(value), VALUE_CHARS)}" for key, value in config.items() if key != "env"
    )
    return LearningRun(f"{algorithm} on {name}", settings)


@contextmanager
def watched(run: LearningRun, until: object) -> Iterator[LearningRun]:
    """Around training: that it begins is told, and how it ends. The block's end is the goal's."""
    run.begin(next(iter(until.items()), None) if isinstance(until, Mapping) else None)
    front_end.current.learning_changed(run)
    state: RunState = "stopped"
    why = ""
    try:
        yield run
        state = "reached"
    except GeneratorExit:  # the caller has left its loop
        raise
    except KeyboardInterrupt:
        why = "interrupted"
        raise
    except TrainingDivergedError as error:
        state, why = "diverged", str(error)
        raise
    except BaseException as error:
        state, why = "failed", f"{type(error).__name__}: {error}"
        raise
    finally:
        run.end(state, why)
        front_end.current.learning_changed(run)
