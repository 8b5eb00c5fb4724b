"""Other people's libraries inside tasks: IPython's displays, ipywidgets, rich, tqdm."""
