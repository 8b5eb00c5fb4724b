"""Tune in the notebook: `%%tune` makes a cell the trial of a search, `%tune` lists and steers experiments; never a
decision about trials."""
