"""`resume`: go on with an experiment from its journal.

State comes from the journal alone. What an experiment was defined with comes from its first record, as far as that is
data; functions and objects of users' own classes must be given again, except the trainable, whose pickle is handed to
the trials unopened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from .. import journal, schedulers, search
from ..callbacks import Callback, check_callbacks
from ..control.actions import Plan
from ..exceptions import TuneError
from ..experiment import Experiment, existing
from ..records import Definition
from ..resources import options_of
from ..space import from_json, parse, unstored
from ..stoppers import stopper_of
from ..trainable import check
from .launching import check_budget, check_room, have_leave, launch, pickled, task_of
from .opening import Opening

MISSING: Any = object()


def resume(
    name: str,
    trainable: Any = None,
    *,
    errored: Literal["", "restart", "resume"] = "",
    param_space: Mapping[str, Any] | None = None,
    scheduler: Any = None,
    search_alg: Any = None,
    stop: Any = MISSING,
    resources: Any = None,
    time_budget_s: float | None = None,
    callbacks: Sequence[Callback] | None = None,
    storage_path: str | None = None,
    detached: bool | None = None,
) -> Experiment:
    """Go on with an experiment that was stopped, or whose controller has died.

    Trials that had ended stay as they are; those that had not go on from their checkpoints; new ones follow as they
    would have.

    Parameters
    ----------
    name : str
    trainable : callable, optional
        In place of the one that was stored.
    errored : str
        What becomes of trials that have failed: "" stays so, "restart" begins them again, "resume" lets them go on from
        their checkpoints.
    param_space, scheduler, search_alg, stop, resources, optional
        What the experiment was begun with; needed where it has functions or objects of your own classes in it.
    time_budget_s : float, optional
        In place of the one before. What the experiment has run already counts, by whichever controller.
    callbacks : list of Callback, optional
    storage_path : str, optional
    detached : bool, optional
        As in `Tuner.start`.

    Raises
    ------
    ExperimentNotFoundError
        There is none of this name.
    ExperimentBusyError
        It runs: `attach` shows it.
    JournalError
        Its journal is damaged, or a newer version has written it.
    TuneError
        Something must be given again; the message names it.
    """
    opening = opening_again(
        name,
        trainable,
        errored=errored,
        param_space=param_space,
        scheduler=scheduler,
        search_alg=search_alg,
        stop=stop,
        resources=resources,
        time_budget_s=time_budget_s,
        callbacks=callbacks,
        storage_path=storage_path,
    )
    return launch(opening, detached)


def opening_again(
    name: str,
    trainable: Any,
    *,
    errored: Literal["", "restart", "resume"] = "",
    param_space: Mapping[str, Any] | None,
    scheduler: Any,
    search_alg: Any,
    stop: Any,
    resources: Any,
    time_budget_s: float | None,
    callbacks: Sequence[Callback] | None,
    storage_path: str | None,
) -> Opening:
    """What the controller goes on with; see `resume`."""
    if errored not in ("", "restart", "resume"):
        raise ValueError(f"errored={errored!r}: it is '', 'restart' or 'resume'")
    if trainable is not None:
        check(trainable)
    check_callbacks(callbacks)
    folder = existing(name, storage_path)
    have_leave(folder)
    journal.wait_until_free(folder)
    opened = journal.first_record(folder)
    assert opened is not None
    definition = opened.definition
    given = resources if resources is not None else getattr(trainable, "_cellmesh_resources", None)
    if given is not None:
        own = False if callable(given) else options_of(given)
        definition = msgspec.structs.replace(definition, resources=own)
    elif definition.resources is False:
        raise TuneError(
            "what a trial takes was a function of its configuration, which is not kept: give it again, resources=..."
        )
    if time_budget_s is not None:
        check_budget(time_budget_s)
        definition = msgspec.structs.replace(definition, time_budget_s=time_budget_s)
    check_room(definition.resources)
    place = folder / journal.CODE
    if trainable is None and not place.exists():
        raise TuneError(f"{place} is not there: give the trainable again, tune.resume({name!r}, trainable)")
    code = place.read_bytes() if trainable is None else pickled(trainable)
    return Opening(
        folder=str(folder),
        plan=msgspec.structs.replace(
            msgspec.convert(opened.plan, Plan),
            takes_group=definition.resources is not False and "bundles" in definition.resources,
        ),
        definition=definition,
        code=code,
        run=task_of(code if trainable is None else trainable, definition, name),
        scheduler=_scheduler(scheduler, definition),
        search=_search(search_alg, definition),
        stopper=stopper_of(_stop(stop, definition)),
        space=_space(param_space, definition),
        resources=given if definition.resources is False else None,
        callbacks=list(callbacks or ()),
        errored=errored,
    )


def _scheduler(given: Any, definition: Definition) -> schedulers.Scheduler:
    if given is not None:
        return schedulers.make(given)
    try:
        return schedulers.from_description(definition.scheduler, parse)
    except ValueError as error:
        raise TuneError(f"{error}: tune.resume(..., scheduler=...)") from None


def _search(given: Any, definition: Definition) -> search.Search:
    if given is not None:
        return search.make(given)
    if definition.search is None:
        raise TuneError("the searcher was an object that is not kept: give it again, tune.resume(..., search_alg=...)")
    return search.from_description(definition.search)


def _stop(given: Any, definition: Definition) -> Any:
    if given is not MISSING:
        return given
    if definition.stop is False:
        raise TuneError("what stops trials was a function or an object, which is not kept: give it again, stop=...")
    return definition.stop


def _space(given: Mapping[str, Any] | None, definition: Definition) -> Mapping[str, Any]:
    if given is not None:
        return given
    paths = [".".join(map(str, path)) for path in unstored(definition.space)]
    if paths:
        raise TuneError(
            f"param_space: {', '.join(paths[:5])} cannot be kept in a journal: give the space again, "
            "tune.resume(..., param_space=...)"
        )
    return from_json(definition.space)
