"""What executes tasks: the zygote, which forks workers, and the workers themselves; never a decision about what runs
next."""
