"""What tasks with a `runtime_env` run in on an engine: a process of that environment beside the engine's worker
(`processes`), its session, and where folders of the driver's lie there (`folder`); never how an environment is set up,
which is `cellmesh.environment`."""
