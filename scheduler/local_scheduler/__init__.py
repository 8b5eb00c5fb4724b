"""The one process a node that keeps the worker pool: `core` and `policy` decide, `server` performs; never a task's
bytes."""
