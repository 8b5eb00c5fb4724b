"""What `f.remote(...)` and `Actor.remote(...)` need: options, exported code, the calls themselves; never what runs
them."""
