"""The global scheduler: `core` and `ledger` are pure, `server` is the process, `supervisor` starts its next life; never
a task or a value."""
