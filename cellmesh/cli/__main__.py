"""`python -m cellmesh.cli`: the command `cellmesh`, by the interpreter that is named."""

import sys

from .main import main

sys.exit(main())
