"""What Linux says: processes, control groups, load, capacity."""
