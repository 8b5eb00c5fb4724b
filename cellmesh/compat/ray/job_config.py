"""`ray.job_config`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class LoggingConfig:
    """Accepted by `init`, and without effect: what tasks print goes to the driver as it is."""

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)


__all__ = ["JobConfig", "LoggingConfig"]


class JobConfig:
    """What `init(job_config=...)` takes: of it the namespace and the runtime environment count."""

    def __init__(
        self,
        jvm_options: list[str] | None = None,
        code_search_path: list[str] | None = None,
        runtime_env: dict[str, Any] | None = None,
        _client_job: bool = False,
        metadata: dict[str, str] | None = None,
        ray_namespace: str | None = None,
        default_actor_lifetime: str = "non_detached",
        **ignored: Any,
    ) -> None:
        if code_search_path is not None and not isinstance(code_search_path, (list, tuple)):
            raise TypeError(f"The type of code search path is incorrect: {type(code_search_path)}")
        self.set_default_actor_lifetime(default_actor_lifetime)
        self.jvm_options: list[str] = jvm_options or []
        self.code_search_path: list[str] = code_search_path or []
        self.runtime_env: dict[str, Any] = runtime_env or {}
        self.metadata: dict[str, str] = metadata or {}
        self.ray_namespace = ray_namespace

    def set_runtime_env(self, runtime_env: dict[str, Any] | None, validate: bool = False) -> None:
        """Of all tasks and actors that have none of their own."""
        self.runtime_env = runtime_env or {}

    def set_default_actor_lifetime(self, default_actor_lifetime: str) -> None:
        """That of actors that have none of their own: "non_detached", as always.

        Raises
        ------
        ValueError
            It is another.
        """
        if default_actor_lifetime == "detached":
            raise ValueError(
                "default_actor_lifetime='detached' is not supported: give lifetime='detached' to each actor that is "
                "to stay"
            )
        if default_actor_lifetime != "non_detached":
            raise ValueError(
                f"Default actor lifetime must be one of `detached`, `non_detached`, not {default_actor_lifetime!r}"
            )

    def set_py_logging_config(self, logging_config: LoggingConfig | None = None) -> None:
        """Without effect, as `init(logging_config=...)`: what tasks print goes to the driver as it is."""

    def set_metadata(self, key: str, value: str) -> None:
        """Something about the program, which nothing here reads."""
        self.metadata[key] = value

    def set_ray_namespace(self, ray_namespace: str) -> None:
        """Where names of actors are looked up."""
        self.ray_namespace = ray_namespace
