"""Who looks at an experiment while it runs: `following.py` tells of what is new, `progress.py` is a program's line;
never who steers it."""
