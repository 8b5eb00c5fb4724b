"""What is wrong with a search space."""

from __future__ import annotations

from ...exceptions import CellmeshError


class SpaceError(CellmeshError, ValueError):
    """A search space, a domain of it or a text of one is not as it must be. The message names the key or the
    position.
    """


class Later(BaseException):
    """A function of `sample_from` has read a parameter that has no value yet: it is called again once there is one.

    No `Exception`, so that a function which catches those lets it pass.
    """

    def __init__(self, path: tuple[object, ...]) -> None:
        super().__init__(path)
        self.path = path
