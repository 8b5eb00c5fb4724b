"""What tasks print, in a terminal, and their progress bars. A notebook's output is in `kernel_ext/output`."""
