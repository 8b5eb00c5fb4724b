"""Looking at a session: listings, history, metrics, stacks, recordings. Changes nothing."""
