"""A session seen from a process of it: the process's attachment, the one current session, waiting for values; never its
start, which is `startup`."""
