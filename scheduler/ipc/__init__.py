"""The wire between processes of one machine: every message, and the sockets; never a TCP port."""
