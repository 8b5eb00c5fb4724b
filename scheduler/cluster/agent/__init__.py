"""One node's part in the cluster; never what the head decides.

`core`, `home_queue` and `reachability` decide, without a clock or a socket; `shell` performs what they decide, in the
agent's process as in the simulation; `process` has the sockets and `segment` the node's memory.
"""
