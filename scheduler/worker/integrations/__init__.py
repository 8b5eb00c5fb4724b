"""Other people's libraries inside tasks: Python's logging, IPython's displays, ipywidgets, rich, tqdm; never one that
the task does not use."""
