"""The session of a pocket's process: what is begun there runs there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...environment import runtime_env
from ...exceptions import EngineUnsupportedError
from ...objstore._core import ACTOR_FLAG_ORDERED, TASK_FLAG_ENV
from ...refs import ObjectRef
from ...scheduler.cluster.messages import Actor, Home
from ...session.session import Session
from ..actor.calling import Making
from ..actor.pocket_calls import PocketCalls
from ..calls import amounts
from ..parcels import AGENT, MAKER, SELF
from . import folder


class PocketSession(Session):
    """See above.

    Attributes
    ----------
    environment_of_task : int or None
        The number of the environment that this process has; None: no task has begun yet.
    asks : PocketCalls
        Its pocket, set by that.
    """

    is_pocket = True
    environment_of_task: int | None = None
    asks: PocketCalls

    @property
    def asks_agent(self) -> bool:
        """Its pocket does so."""
        return True

    def agent(self) -> ObjectRef[Any]:
        """A stand-in of home's."""
        return self.asks.stand_in(AGENT)

    def environment_number(self, options: Mapping[str, Any]) -> int:
        """That of this process: there is no other one for what a task submits.

        Raises
        ------
        EngineUnsupportedError
            Another one is asked for.
        """
        if runtime_env.effective(options, self.environment) != runtime_env.effective({}, self.environment):
            raise EngineUnsupportedError(
                f"runtime_env={dict(options['runtime_env'])!r} is asked for by a task that runs on an engine, where "
                "what it submits runs in its own process: give that runtime_env to the task itself, or submit from "
                "the notebook or program what needs another one"
            )
        assert self.environment_of_task is not None  # a task asks
        return self.environment_of_task

    def make_actor(
        self,
        function: ObjectRef[Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        demand: dict[str, float],
        hold: dict[str, float] | None,
        options: Mapping[str, Any],
        how: Mapping[str, Any],
    ) -> ObjectRef[Any] | None:
        """See there.

        Raises
        ------
        EngineUnsupportedError
            Home is not told that option.
        """
        name, *_ = how["meta"]
        for option in ("scheduling_strategy", "label_selector"):
            if options.get(option) is not None:
                self.refuse_on_engine(
                    f"{name}.options({option}=...)", "an actor is made without that: make it in the notebook or program"
                )
        spec = Actor(ACTOR_FLAG_ORDERED if how["ordered"] else 0, how["max_concurrency"], list(how["groups"]))
        if (creates := self.asks.describe(how["meta"], spec)) is None:
            self.refuse_on_engine(f"{name}.remote()", "a class with so many methods makes no actor")
            return None
        home = Home(
            how["name"],
            how["namespace"],
            how["max_restarts"],
            how["max_task_retries"],
            how["max_pending"],
            how["detached"],
            how["refuses"],
        )
        making = Making(
            creates,
            home,
            amounts(demand),
            amounts(hold or {}),
            self.environment_number(options),
            TASK_FLAG_ENV if how["env"] else 0,
            options.get("priority", 0),
        )
        submit = self.client.submitter(
            function,
            self.shape({}, None, name),
            actor=self.asks.stand_in(MAKER),
            max_retries=0,
            about=how["about"],
        )
        handle = submit(*args, **kwargs)
        return handle if self.asks.make(handle, making) else None

    def called(self, actor: ObjectRef[Any]) -> ObjectRef[Any]:
        """An actor calls itself as others do, from home, where its calls stand in line.

        Raises
        ------
        EngineUnsupportedError
            It is being constructed: home does not know it.
        """
        info = self.client.actor_info()
        if info is None or info["object"] != actor:
            return actor
        if not self.asks.is_constructed:
            self.refuse_on_engine(
                "a call by the own handle of an actor", "its constructor cannot make it: call the method itself"
            )
        return self.asks.stand_in(SELF)

    def package_dir(self) -> str:
        """Below which folders of the driver's are unpacked."""
        return folder.of(self.node.session_id)
