"""Waiting beside a main thread that may be interrupted; never for another process."""
