"""Processes and policy: who runs, and what happens when somebody dies. Imports nothing by itself, so that it costs nothing."""
