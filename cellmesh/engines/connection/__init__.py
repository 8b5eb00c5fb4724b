"""How the connection with an engine begins: what `init(engine_options=...)` says of it, versions here and there, and
what is sent to workers that lack it; never what goes on once it is there."""
