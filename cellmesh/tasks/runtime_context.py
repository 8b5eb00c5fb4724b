"""Where the caller runs: what `cellmesh.get_runtime_context()` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from ..session.session import Session
    from ..submit.actor import ActorHandle


class RuntimeContext:
    """A look at the caller's place. Ids are strings; None for what the caller is not in."""

    def __init__(self, of: Session) -> None:
        self._session = of

    def get_job_id(self) -> str:
        """The session's id: a session has one driver program."""
        return self._session.node.session_id

    def get_node_id(self) -> str:
        """The node's id; on one machine, the session's."""
        return self._session.node.session_id

    def get_worker_id(self) -> str:
        """The number of this process among those attached to the session."""
        return str(self._session.client.index)

    def get_task_id(self) -> str | None:
        """The number of the running task; None in the driver."""
        return str(self._session.client.current_task) if self._session.client.current_task else None

    def get_task_name(self) -> str | None:
        """The display name of the running task; None in the driver."""
        return self._session.client.current_task_name or None

    def get_actor_id(self) -> str | None:
        """The actor's id, as the handle's ref has it; None outside actors."""
        info = self._actor()
        return info["object"].hex() if info else None

    def get_actor_name(self) -> str | None:
        """The name that the actor was given; "" for none, None outside actors."""
        info = self._actor()
        return self._session.client.get(info["object"])[1] if info else None

    @property
    def current_actor(self) -> ActorHandle[Any]:
        """A handle of the actor that the caller belongs to."""
        info = self._actor()
        if info is None:
            raise RuntimeError("current_actor: the caller is not a method of an actor")
        from ..submit.actor import handle_of

        return handle_of(info["object"])

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this actor has been restarted."""
        info = self._actor()
        return bool(info and info["restarts"])

    def is_canceled(self) -> bool:
        """Whether the running task is to stop; for a loop in which KeyboardInterrupt is not wanted."""
        return self._session.client.cancelled()

    @property
    def runtime_env(self) -> dict[str, Any]:
        """What the caller's process was given, the session's if nothing of its own."""
        from ..environment import runtime_env

        found = runtime_env.effective({}, self._session.environment)
        return {name: part for name, part in found.items() if name in runtime_env.KEYS}

    @property
    def namespace(self) -> str:
        """Where names of actors are looked up."""
        return self._session.namespace

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what the caller submits goes to the placement group that the caller runs in; False in the driver."""
        return self._session.client.captures_children()

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """The GPUs of the running task or actor."""
        from ..environment import gpus

        return {"GPU": list(gpus.ids)}

    def get_assigned_resources(self) -> dict[str, float]:
        """What the running task or actor holds, amount by resource name; {} in the driver."""
        return self._session.client.assigned()

    def get(self) -> dict[str, Any]:
        """All of it as a dict."""
        return {
            "job_id": self.get_job_id(),
            "node_id": self.get_node_id(),
            "worker_id": self.get_worker_id(),
            "task_id": self.get_task_id(),
            "actor_id": self.get_actor_id(),
            "namespace": self.namespace,
        }

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a runtime context tells where its caller runs and stays there: return what you need of it, such as "
            "get_runtime_context().get_task_id(), or .get() for all of it as a dict"
        )

    def _actor(self) -> dict[str, Any] | None:
        return self._session.client.actor_info() if self._session.is_worker else None

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.get().items() if value is not None)
        return f"RuntimeContext({facts})"
