"""The command line: `cellmesh start`, `status`, `list`, `stop` and the others. Speaks to sessions from outside."""
