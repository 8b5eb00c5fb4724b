"""A session seen from a process of it: its start and end, the process's one session, waiting for values."""
