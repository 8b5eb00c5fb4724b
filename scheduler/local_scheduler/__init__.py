"""The one process a node that keeps the worker pool: `core` and `policy` decide, `server` performs."""
