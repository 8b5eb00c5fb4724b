"""What tasks print, and errors, where a notebook shows them."""
