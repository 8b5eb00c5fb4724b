"""The kernel's end of the panel: its requests, the widget, pictures and files of the graph."""
