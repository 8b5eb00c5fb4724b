"""How an exception leaves a worker and is raised again where the value is wanted; never the decision to try again."""
