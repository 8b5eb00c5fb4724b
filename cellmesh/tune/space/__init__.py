"""Search spaces: domains of parameters, nested in dicts, lists and tuples, and the configurations that they make; never
a result.

`domains.py` has the domains, `tree.py` what nests them, `resolve.py` how a configuration is drawn, `expand.py` which
trials there are, `json_form.py` and `parser.py` how spaces and configurations are written.
"""

from .domains import NAMES as NAMES
from .domains import Choice as Choice
from .domains import Domain as Domain
from .domains import Float as Float
from .domains import Function as Function
from .domains import Grid as Grid
from .domains import Integer as Integer
from .domains import Normal as Normal
from .domains import choice as choice
from .domains import grid_search as grid_search
from .domains import lograndint as lograndint
from .domains import loguniform as loguniform
from .domains import qlograndint as qlograndint
from .domains import qloguniform as qloguniform
from .domains import qrandint as qrandint
from .domains import qrandn as qrandn
from .domains import quniform as quniform
from .domains import randint as randint
from .domains import randn as randn
from .domains import sample_from as sample_from
from .domains import uniform as uniform
from .errors import SpaceError as SpaceError
from .expand import Expansion as Expansion
from .expand import count as count
from .expand import expand as expand
from .json_form import from_json as from_json
from .json_form import to_json as to_json
from .json_form import unstored as unstored
from .parser import parse as parse
from .parser import parse_line as parse_line
from .parser import split_line as split_line
from .sameness import Unstored as Unstored
from .sameness import same as same
