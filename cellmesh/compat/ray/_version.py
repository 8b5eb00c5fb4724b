"""The Ray whose names these are."""

__version__ = "2.60.0"
