"""The one process a node that keeps the worker pool: `core` and `policy` decide, `server` performs (whether a
dead worker's task is retried: objstore/core/retries); never a task's bytes."""
