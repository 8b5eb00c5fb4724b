"""What an experiment is begun, or gone on, with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..callbacks import Callback
from ..control.actions import Plan
from ..records import Definition
from ..schedulers.protocol import Scheduler
from ..search.protocol import Search
from ..stoppers import Stopper

if TYPE_CHECKING:
    from ...submit.remote_function import RemoteFunction


@dataclass
class Opening:
    """What an experiment is begun, or gone on, with."""

    folder: str
    plan: Plan
    definition: Definition
    code: bytes  # the trainable, pickled
    run: RemoteFunction[..., Any, Any]  # run_trial with its first arguments
    scheduler: Scheduler
    search: Search
    stopper: Stopper | None
    space: Mapping[str, Any]
    resources: Callable[[dict[str, Any]], Any] | None = None  # what a configuration's trial takes; None: the same
    callbacks: list[Callback] = field(default_factory=list)
    errored: Literal["", "restart", "resume"] = ""  # what becomes of failed trials when it goes on
