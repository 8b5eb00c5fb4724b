"""What Linux says: processes, control groups, load, capacity; never what follows from it."""
