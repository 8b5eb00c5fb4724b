"""Leases: the right to have so many tasks of a shape under way on a node. With `ledger` the head books and grants them,
with `holder` an agent asks for, uses and returns them; never a socket, a clock or a task's value.
"""
