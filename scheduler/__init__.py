"""Processes and policy: who runs, and what happens when somebody dies; never the API that programs call."""
