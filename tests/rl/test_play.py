"""Frames of an episode: what is encoded is what another decoder reads, and `play` shows it."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from support import probe_envs as probes

from cellmesh import rl
from cellmesh.rl.episodes.frames import animated_png

SMALL: dict[str, Any] = {"n_pairs": 2, "n_evaluations": 1, "hidden": (2,), "noise_table_size": 1000}


class Shown(probes.Endless):
    """A bar that grows."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}
    render_mode = "rgb_array"

    def render(self) -> Any:
        picture = np.zeros((4, 6, 3), np.uint8)
        picture[:, : self.t, 1] = 200
        return picture


def test_another_decoder_reads_the_same_frames() -> None:
    image = pytest.importorskip("PIL.Image", reason="no pillow: pip install pillow")
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (5, 7, 3), dtype=np.uint8) for _ in range(3)]
    with image.open(io.BytesIO(animated_png(frames, 25.0))) as picture:
        assert picture.n_frames == 3 and picture.size == (7, 5)
        for k, frame in enumerate(frames):
            picture.seek(k)
            assert picture.info["duration"] == 40
            assert np.array_equal(np.asarray(picture.convert("RGB")), frame)


def test_play_shows_an_episode() -> None:
    algorithm = rl.ES(Shown, seed=0, **SMALL)
    episode = algorithm.play(seed=1)
    assert [int((frame[0, :, 1] > 0).sum()) for frame in episode.frames] == [0, 1, 2, 3]
    assert episode.episode_return == 3.0
    shown = episode._repr_mimebundle_()
    assert shown["text/plain"] == "<Episode: return 3, 4 frames>" and "data:image/png;base64," in shown["text/html"]
    assert len(algorithm.play(max_frames=2).frames) == 2


def test_an_environment_without_pictures_is_named() -> None:
    with pytest.raises(rl.RLError, match=r"shows no pictures: render\(\) returned None"):
        rl.ES(probes.ActionReward, seed=0, **SMALL).play()
