"""What a head must not forget, and where it is kept."""
