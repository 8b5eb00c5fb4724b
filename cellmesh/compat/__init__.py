"""Other projects' names for what cellmesh does."""
