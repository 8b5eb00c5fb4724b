"""The cards by which futures and actors display themselves."""
