"""The magics: they parse a line and call the API."""
