"""What a head must not forget, and where it is kept; never a lease, which agents ask for again."""
