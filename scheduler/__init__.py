"""Processes and policy: who runs, and what happens when somebody dies."""
