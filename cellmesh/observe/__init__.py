"""Looking at a session: listings, history, metrics, stacks, recordings; never a change to its tasks or values."""
