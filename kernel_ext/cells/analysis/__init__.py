"""What the text of a cell says: what it reads, assigns and defines, and what its task is called. Pure: the
cell is never run."""
