"""A cell becomes a task: `analysis` reads its text, the modules here submit it, and `task` runs on the worker; never a
magic's line, which `magics` parses."""
