"""What lives in the user's kernel: magics, the analysis of cells, output, the displays of futures, the panel's other end.

`%load_ext cellmesh` must be quick: this package imports nothing by itself, and its modules import late what is heavy.
"""
