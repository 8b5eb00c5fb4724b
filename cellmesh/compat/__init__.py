"""Other projects' names for what cellmesh does; never a feature of its own."""
