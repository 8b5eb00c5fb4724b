"""Frames of an episode as one moving picture: an animated PNG, which browsers play and which needs no codec. Pure.

The format is in the PNG specification, third edition (2025), sections 5, 11 and 13: a first image, and for each further
frame its place, its delay and its pixels.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def animated_png(frames: Sequence[NDArray[np.uint8]], frames_per_s: float) -> bytes:
    """Encode frames.

    Parameters
    ----------
    frames : sequence of ndarray of shape (height, width, 3), uint8
        At least one; all of one shape.
    frames_per_s : float, > 0

    Returns
    -------
    bytes
    """
    height, width, _ = frames[0].shape
    number = 0  # of the chunks that belong to frames

    def numbered() -> bytes:
        nonlocal number
        number += 1
        return struct.pack(">I", number - 1)

    delay = struct.pack(">HH", max(1, min(round(1000 / frames_per_s), 65535)), 1000)
    chunks = [
        _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        _chunk(b"acTL", struct.pack(">II", len(frames), 0)),
    ]
    for k, frame in enumerate(frames):
        place = struct.pack(">IIII", width, height, 0, 0)
        chunks.append(_chunk(b"fcTL", numbered() + place + delay + b"\0\0"))
        lines = np.concatenate([np.zeros((height, 1), np.uint8), frame.reshape(height, -1)], axis=1)  # 0: no filter
        pixels = zlib.compress(lines.tobytes(), 6)
        chunks.append(_chunk(b"IDAT", pixels) if k == 0 else _chunk(b"fdAT", numbered() + pixels))
    return SIGNATURE + b"".join(chunks) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class Episode:
    """An episode that a policy has played; in a notebook it shows itself.

    Attributes
    ----------
    frames : list of ndarray of shape (height, width, 3), uint8
    episode_return : float
        The sum of its rewards.
    """

    frames: list[NDArray[np.uint8]]
    episode_return: float

    def __init__(self, frames: list[NDArray[np.uint8]], episode_return: float, frames_per_s: float) -> None:
        self.frames, self.episode_return, self._frames_per_s = frames, episode_return, frames_per_s

    def to_png(self) -> bytes:
        """The moving picture."""
        return animated_png(self.frames, self._frames_per_s)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        picture = base64.b64encode(self.to_png()).decode()
        # As HTML, because what shows image/png may show the first frame alone.
        return {
            "text/plain": repr(self),
            "text/html": f'<img alt="{repr(self)[1:-1]}" src="data:image/png;base64,{picture}">',
        }

    def __repr__(self) -> str:
        return f"<Episode: return {self.episode_return:g}, {len(self.frames)} frames>"
