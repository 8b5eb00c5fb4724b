"""Other people's libraries inside tasks: IPython's displays, ipywidgets, rich, tqdm; never one that the task does not
use."""
