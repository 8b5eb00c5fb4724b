"""The magics: they parse a line and call the API; never a copy of its logic."""
