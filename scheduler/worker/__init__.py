"""What executes tasks: the zygote, which forks workers, and the workers themselves."""
