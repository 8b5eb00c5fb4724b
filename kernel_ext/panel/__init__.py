"""The kernel's end of the panel: its requests, the widget, pictures and files of the graph; never the panel itself,
which is `labextension`."""
