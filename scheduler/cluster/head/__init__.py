"""The global scheduler: `core` is pure, `server` is the process, `supervisor` starts its next life; never a task or a
value."""
