"""Environments: several that are stepped together, by several processes (users see `vector.py`); never a policy."""
