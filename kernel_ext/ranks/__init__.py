"""Cells that run in every process of a group (`%ranks`, `%%ranks`); never an actor's own methods, or torch.

`rank` is what a member of the group is, on the worker: a namespace that lives on between cells. `ranks` makes and ends
the group, `cell` runs a cell in it, `waiting` finds out for whom ranks wait, `folding` and `strip` are what stands
under the cell.
"""
