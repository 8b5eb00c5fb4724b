"""How a session begins: `init` and its arguments, the start of processes, and what `init` returns; never what it does
afterwards."""
