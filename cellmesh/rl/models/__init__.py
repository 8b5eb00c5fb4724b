"""From observations to actions: how each is written as numbers, and networks between them; never how they are
learned."""
