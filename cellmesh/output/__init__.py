"""What tasks print, in a terminal, and their progress bars; never a notebook's output, which is `kernel_ext/output`."""
