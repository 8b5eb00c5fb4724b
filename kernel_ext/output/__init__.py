"""What tasks print, and errors, where a notebook shows them; never a terminal's output, which is `cellmesh/output`."""
