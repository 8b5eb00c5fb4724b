"""What an actor on an engine lives in where the engine has no process for it: a child (`process`, `child`), which
may serve several calls at a time (`serving`), and the line in front of it (`lines`); never what only one engine has."""
