"""One session on one machine: its folder, its first process, the driver's handle on it; never a task."""
