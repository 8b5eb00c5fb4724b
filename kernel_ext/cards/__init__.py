"""The cards by which futures, actors and experiments display themselves; never the panel."""
