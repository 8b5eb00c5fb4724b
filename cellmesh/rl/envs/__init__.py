"""Environments: several that are stepped together, by several processes. `vector.py` is what users see."""
