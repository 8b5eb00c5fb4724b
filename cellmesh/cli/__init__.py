"""The command line: `cellmesh start`, `status`, `list`, `stop` and the others, which speak to sessions from outside;
never what a program imports."""
