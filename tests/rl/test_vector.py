"""`rl.make_vec` beside gymnasium's own vector environment: the same values at every step and every boundary, in this
process and in workers; and what becomes of environments that fail and workers that die.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from support.waiting import wait_until

from cellmesh import rl

pytestmark = pytest.mark.may_keep("threads", "of the session, which this module shares")
WORKERS = (0, 1, 2)
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
Envs = Callable[..., rl.SharedVectorEnv]


class Script(gym.Env[Any, Any]):
    """Counts its steps; episodes end after `lengths`, every second one truncated. Its infos are of every kind."""

    observation_space = spaces.Dict(
        {
            "place": spaces.Box(-1.0, 1e6, (2,), np.float32),
            "kind": spaces.Discrete(3),
            "more": spaces.Tuple(
                (spaces.MultiBinary(3), spaces.MultiDiscrete([2, 5]), spaces.Box(0, 255, (2, 2), np.uint8))
            ),
        }
    )
    action_space = spaces.Dict({"push": spaces.Box(-1, 1, (1,), np.float32), "key": spaces.Discrete(4)})
    metadata = {"render_modes": ["rgb_array"], "mine": 1}
    render_mode = "rgb_array"

    def __init__(self, lengths: tuple[int, ...] = (1, 3, 2)) -> None:
        self.lengths, self.episode, self.t = lengths, -1, 0
        self.word = "none"

    def see(self) -> dict[str, Any]:
        return {
            "place": np.array([self.t, self.np_random.random()], np.float32),
            "kind": self.t % 3,
            "more": (
                np.array([self.t % 2, 0, 1], np.int8),
                np.array([self.t % 2, self.t % 5]),
                np.full((2, 2), self.t, np.uint8),
            ),
        }

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self.see(), {"episode": self.episode, "options": str(options)}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        over = self.t >= self.lengths[self.episode % len(self.lengths)]
        info: dict[str, Any] = {
            "key": action["key"],
            "half": self.t / 2,
            "deep": {"array": np.arange(self.t % 2 + 2)[:2]},
        }
        if self.t == 2:
            info["now_and_then"] = "text"
        return (
            self.see(),
            float(action["push"][0]),
            over and self.episode % 2 == 0,
            over and self.episode % 2 == 1,
            info,
        )

    def render(self) -> Any:
        return np.full((2, 2, 3), self.t, np.uint8)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, in kind and dtype too."""
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        equal = isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape
        return equal and (
            all(map(same, a, b)) if a.dtype == object else np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        )
    return type(a) is type(b) and a == b


@pytest.fixture
def envs(session: None) -> Iterator[Envs]:
    """`rl.make_vec`, whose vector environments are closed after the test."""
    made: list[rl.SharedVectorEnv] = []

    def make(*arguments: Any, **options: Any) -> rl.SharedVectorEnv:
        made.append(rl.make_vec(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


# ---- beside gymnasium's
@pytest.mark.parametrize("n_workers", WORKERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("env", ["CartPole-v1", Script])
def test_every_step_is_gymnasiums(envs: Envs, env: Any, mode: AutoresetMode, n_workers: int) -> None:
    ours = envs(env, 3, n_workers, autoreset_mode=mode)
    make = env if callable(env) else lambda: gym.make(env)
    theirs = gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode)
    for name in ("single_observation_space", "single_action_space", "observation_space", "action_space", "num_envs"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.metadata == theirs.metadata and ours.render_mode == theirs.render_mode
    assert same(ours.reset(seed=5, options={"x": 1}), theirs.reset(seed=5, options={"x": 1}))
    theirs.action_space.seed(0)
    n_over = 0
    for _ in range(60):
        actions = theirs.action_space.sample()
        found, wanted = ours.step(actions), theirs.step(actions)
        assert same(found, wanted), (found, wanted)
        n_over += found[2].sum() + found[3].sum()
    assert n_over > 2
    assert ours.get_attr("np_random_seed") == theirs.np_random_seed
    theirs.close()


@pytest.mark.parametrize("n_workers", WORKERS)
def test_disabled_autoreset_resets_what_the_mask_says(envs: Envs, n_workers: int) -> None:
    ours = envs(Script, 3, n_workers, autoreset_mode="Disabled")
    theirs = gym.vector.SyncVectorEnv([Script] * 3, autoreset_mode="Disabled")
    assert same(ours.reset(seed=1), theirs.reset(seed=1))
    actions = theirs.action_space.sample()
    assert same(ours.step(actions), theirs.step(actions))  # all are over after one step
    first = np.array([True, False, True])
    assert same(
        ours.reset(seed=[7, None, 8], options={"reset_mask": first}),
        theirs.reset(seed=[7, None, 8], options={"reset_mask": first}),
    )
    with pytest.raises(rl.EnvFailedError, match=r"environment 1.* episode is over.*reset_mask"):
        ours.step(actions)
    with pytest.raises(rl.RLError, match="in the middle of a step"):
        ours.reset(options={"reset_mask": first})
    with pytest.raises(rl.RLError, match=r"step\(\).*reset\(\) begins new"):
        ours.step(actions)
    assert same(ours.reset(seed=1)[0], theirs.reset(seed=1)[0])
    for wrong, kind in (([True], TypeError), (np.array([True]), ValueError), (np.zeros(3, bool), ValueError)):
        with pytest.raises(kind, match="reset_mask"):
            ours.reset(options={"reset_mask": wrong})


@pytest.mark.parametrize("n_workers", WORKERS)
def test_attributes_calls_and_frames(envs: Envs, n_workers: int) -> None:
    ours = envs([lambda k=k: Script((k,)) for k in (4, 5, 6)], num_workers=n_workers)
    ours.reset()
    assert ours.get_attr("lengths") == ((4,), (5,), (6,))
    ours.set_attr("word", ["a", "b", "c"])
    assert ours.get_attr("word") == ("a", "b", "c")
    ours.set_attr("word", "all")
    assert ours.call("see")[2]["kind"] == 0 and ours.get_attr("word") == ("all",) * 3
    actions = ours.action_space.sample()
    ours.step(actions)  # between two calls
    assert [frame[0, 0, 0] for frame in ours.render()] == [1, 1, 1]
    with pytest.raises(ValueError, match="2 values for 3"):
        ours.set_attr("word", ["a", "b"])
    with pytest.raises(rl.EnvFailedError, match=r"environment 0.* has no attribute nothing"):
        ours.get_attr("nothing")


def test_one_seed_makes_the_same_episodes_wherever_they_run(envs: Envs) -> None:
    firsts = [envs("CartPole-v1", 4, n_workers, seed=3).reset()[0] for n_workers in WORKERS]
    assert np.array_equal(firsts[0], firsts[1]) and np.array_equal(firsts[0], firsts[2])
    assert np.array_equal(firsts[0], gym.make_vec("CartPole-v1", 4, vectorization_mode="sync").reset(seed=3)[0])


@pytest.mark.parametrize("n_workers", [0, 1])
def test_copies_unless_told_otherwise(envs: Envs, n_workers: int) -> None:
    for copy in (True, False):
        ours = envs("CartPole-v1", 2, n_workers, copy=copy)
        ours.reset(seed=0)
        first = ours.step(np.array([0, 1]))
        second = ours.step(np.array([0, 1]))
        assert (first[0] is second[0]) is not copy
        assert np.array_equal(first[0], second[0]) is not copy


def test_large_infos_arrive_whole(envs: Envs) -> None:
    class Tells(Script):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], {"large": np.full(50_000 * self.t, self.episode)}

    ours = envs(lambda: Tells((9,)), 2, 1)
    ours.reset()
    actions = ours.action_space.sample()
    for t in (1, 2, 3):
        infos = ours.step(actions)[4]
        assert infos["large"].shape == (2, 50_000 * t) and not infos["large"].any()


def test_wrappers_specifications_and_arguments(envs: Envs) -> None:
    spec = gym.spec("CartPole-v1")
    ours = envs(spec, 2, 1, wrappers=[gym.wrappers.TimeAwareObservation], max_episode_steps=3)
    ours.reset()
    assert ours.single_observation_space.shape == (5,) and ours.spec.max_episode_steps == 3
    for _ in range(3):
        truncated = ours.step(np.array([0, 1]))[3]
    assert truncated.all()


def test_gymnasiums_own_checks_pass(envs: Envs) -> None:
    """A wrapper of gymnasium's that looks at every value, and its own wrappers for vector environments."""
    ours = envs("CartPole-v1", 3, 1, autoreset_mode=AutoresetMode.NEXT_STEP)
    assert isinstance(ours, gym.vector.VectorEnv) and ours.unwrapped is ours and not ours.closed
    wrapped = gym.wrappers.vector.RecordEpisodeStatistics(gym.wrappers.vector.NormalizeObservation(ours))
    observations, _ = wrapped.reset(seed=1)
    assert observations in wrapped.observation_space or observations.shape == (3, 4)
    ended = {}
    while "episode" not in ended:
        ended = wrapped.step(wrapped.action_space.sample())[4]
    assert ended["episode"]["l"].max() >= 8
    wrapped.close()
    assert ours.closed
    with pytest.raises(rl.RLError, match="closed"):
        ours.reset()
    ours.close()


# ---- what fails
class Bad(Script):
    """Misbehaves as it is told, at its second step."""

    def __init__(self, how: str = "") -> None:
        super().__init__((100,))
        self.how = how
        if how == "make":
            raise RuntimeError("made badly")

    def reset(self, **arguments: Any) -> Any:
        if self.how == "reset":
            raise RuntimeError("reset badly")
        return super().reset(**arguments)

    def step(self, action: Any) -> Any:
        seen, reward, ended, cut, info = super().step(action)
        if self.t == 2:
            if self.how == "step":
                raise RuntimeError("stepped badly")  # this line is named
            if self.how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "shape":
                seen["place"] = np.zeros(3, np.float32)
            if self.how == "dtype":
                seen["kind"] = 1.5
            if self.how == "key":
                del seen["kind"]
            if self.how == "nan":
                seen["place"][1] = np.nan
            if self.how == "infinite":
                seen["place"][:] = np.inf, -np.inf
            if self.how == "reward":
                reward = np.zeros(2)
            if self.how == "nan reward":
                reward = np.nan
        return seen, reward, ended, cut, info


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize(
    "how, message",
    [
        ("step", r"environment 2( \(worker 1\))? raised in step: RuntimeError: stepped badly \(.*:\d+: "),
        ("shape", r"environment 2.* returned an observation that is not of its space: float32 of shape \(3,\).*\(2,\)"),
        ("dtype", r"environment 2.*float64.*int64"),
        ("key", r"environment 2.*a Dict of 'kind', 'more', 'place'"),
        ("nan", r"environment 2.* returned NaN in its observation"),
        ("reward", r"environment 2.* returned the reward array"),
        ("nan reward", r"environment 2.* returned NaN in its reward"),
    ],
)
def test_what_an_environment_does_wrong_names_it(envs: Envs, how: str, message: str, n_workers: int) -> None:
    ours = envs([Bad, Bad, lambda: Bad(how), Bad], num_workers=n_workers)
    ours.reset(seed=0)
    actions = ours.action_space.sample()
    ours.step(actions)
    with pytest.raises(rl.EnvFailedError, match=message):
        ours.step(actions)
    with pytest.raises(rl.RLError, match="reset"):
        ours.step(actions)
    ours.reset(seed=0)  # begins anew, in new workers
    ours.step(actions)


@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.parametrize(
    "how, message", [("make", "could not be made.*made badly"), ("reset", "raised in reset.*reset badly")]
)
def test_what_cannot_begin_names_the_environment(envs: Envs, how: str, message: str, n_workers: int) -> None:
    with pytest.raises(rl.EnvFailedError, match=f"environment 1.*{message}"):
        envs([Bad, lambda: Bad(how)], num_workers=n_workers).reset()


@pytest.mark.parametrize("n_workers", [0, 1])
def test_infinities_are_allowed(envs: Envs, n_workers: int) -> None:
    ours = envs(lambda: Bad("infinite"), 1, n_workers)
    ours.reset()
    actions = ours.action_space.sample()
    ours.step(actions)
    assert ours.step(actions)[0]["place"].tolist() == [[np.inf, -np.inf]]


def pid(one: rl.SharedVectorEnv, i: int) -> int:
    return one.call("where")[i]


class Placed(Script):
    def where(self) -> int:
        return os.getpid()


@pytest.mark.parametrize("mode", MODES)
def test_a_killed_worker_is_replaced_and_its_episodes_are_truncated(envs: Envs, mode: AutoresetMode) -> None:
    ours = envs(lambda: Placed((100,)), 4, 2, seed=0, autoreset_mode=mode)
    ours.reset()
    actions = ours.action_space.sample()
    before = ours.step(actions)
    os.kill(pid(ours, 3), signal.SIGKILL)
    with pytest.warns(rl.EnvWorkerReplacedWarning, match=r"worker 1 of environments 2 to 3 died") as said:
        seen, rewards, ended, cut, infos = ours.step(actions)
    assert len(said) == 1
    assert cut.tolist() == [False, False, True, True] and not ended.any() and rewards[2:].tolist() == [0, 0]
    assert infos["worker_died"].tolist() == cut.tolist() and seen["place"][:2, 0].tolist() == [2, 2]
    if mode is AutoresetMode.SAME_STEP:
        assert seen["place"][2:, 0].tolist() == [0, 0]
        assert same(infos["final_obs"][3]["place"], before[0]["place"][3])
    else:
        assert same(seen["place"][2:], before[0]["place"][2:])
        seen, _, _, cut, _ = ours.step(actions)
        assert seen["place"][:, 0].tolist() == [3, 3, 0, 0] and not cut.any()
    assert ours.step(actions)[0]["place"][2:, 0].tolist() == [1, 1]


def test_a_worker_that_dies_in_a_step_again_and_again_is_told(envs: Envs) -> None:
    ours = envs([Bad, lambda: Bad("die")], num_workers=2, max_restarts=1)
    ours.reset()
    actions = ours.action_space.sample()
    ours.step(actions)
    with pytest.warns(rl.EnvWorkerReplacedWarning, match="worker 1"):
        assert ours.step(actions)[3].tolist() == [False, True]
    ours.step(actions)
    ours.step(actions)
    with pytest.raises(rl.EnvWorkerDiedError, match=r"worker 1 of environments 1 to 1.*replaced 1 times"):
        ours.step(actions)


class Dies(Placed):
    """Kills its process where it is told to, once."""

    def __init__(self, where: str, once: Path) -> None:
        self.where_to, self.once = where, once
        super().__init__((100,))
        self._maybe("make")

    def reset(self, **arguments: Any) -> Any:
        self._maybe("reset")
        return super().reset(**arguments)

    def _maybe(self, where: str) -> None:
        if where == self.where_to and not self.once.exists():
            self.once.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_while_it_makes_environments_is_told(envs: Envs, tmp_path: Path) -> None:
    with pytest.raises(rl.EnvWorkerDiedError, match=r"worker 1 of environments 1 to 1 has died: [^.]*$"):
        envs([Script, lambda: Dies("make", tmp_path / "once")], num_workers=2)


def test_a_worker_that_dies_in_a_reset_or_before_it_is_replaced_and_resets_again(envs: Envs, tmp_path: Path) -> None:
    ours = envs([Placed, lambda: Dies("reset", tmp_path / "once")], num_workers=2)
    theirs = gym.vector.SyncVectorEnv([Script] * 2)
    with pytest.warns(rl.EnvWorkerReplacedWarning, match=r"worker 1 .* is replaced\. Its environments are reset"):
        seen = ours.reset(seed=3)[0]
    assert same(seen, theirs.reset(seed=3)[0])
    for n_steps in (0, 1):  # of a worker that waits for calls, and of one that waits for actions
        first = pid(ours, 0)
        for _ in range(n_steps):
            ours.step(ours.action_space.sample())
        os.kill(first, signal.SIGKILL)
        with pytest.warns(rl.EnvWorkerReplacedWarning, match="worker 0"):
            seen = ours.reset(seed=4)[0]
        assert same(seen, theirs.reset(seed=4)[0])


def test_what_cannot_go_on_with_a_dead_worker_says_so(envs: Envs) -> None:
    ours = envs(lambda: Placed((100,)), 2, 2, autoreset_mode="Disabled")
    ours.reset()
    pids, actions = ours.call("where"), ours.action_space.sample()
    ours.step(actions)
    os.kill(pids[1], signal.SIGKILL)
    with pytest.raises(rl.EnvWorkerDiedError, match=r"worker 1 of environments 1 to 1 has died.*replaces it"):
        ours.call("where")
    states = ours.states()
    assert states[0] is not None and states[1] is None
    with pytest.warns(rl.EnvWorkerReplacedWarning, match="worker 1"):
        assert ours.step(actions)[3].tolist() == [False, True]
    os.kill(pids[0], signal.SIGKILL)
    with pytest.raises(rl.EnvWorkerDiedError, match="worker 0"):
        ours.reset(options={"reset_mask": np.array([False, True])})
    ours.reset()
    ours.step(actions)


def test_workers_end_with_what_they_work_for(session: None) -> None:
    ours = rl.make_vec(Placed, 2, 2)
    ours.reset()
    pids = ours.call("where")
    del ours
    wait_until(lambda: not any(os.path.exists(f"/proc/{one}") for one in pids), what="workers that have ended")


def test_bad_arguments(session: None) -> None:
    class Words(Script):
        observation_space = spaces.Text(5)

    class Other(Script):
        action_space = spaces.Discrete(2)

    class Locked(Script):
        lock = None

    import threading

    lock = threading.Lock()
    for arguments, kind, message in (
        (("CartPole-v1", 0), ValueError, "num_envs=0"),
        (("CartPole-v1", 2, 3), ValueError, "num_workers=3.*num_envs=2"),
        (("CartPole-v9",), gym.error.Error, "CartPole.*v9|v9"),
        ((3,), TypeError, "env=3"),
        ((lambda: 3,), TypeError, "environment 0 is 3.*gymnasium.Env"),
        ((Words,), TypeError, "no fixed shape"),
        (([Script, Other],), rl.EnvFailedError, "environment 1 has the spaces"),
        (([Script, Other], 2, 2), rl.EnvFailedError, "environment 1 .*has the spaces"),
        ((lambda: lock and Script(), 1, 1), TypeError, "cannot be sent to a worker.*num_workers=0"),
    ):
        with pytest.raises(kind, match=message):
            rl.make_vec(*arguments)
    with pytest.raises(TypeError, match="render_mode"):
        rl.make_vec(Script, render_mode="human")
    with pytest.raises(ValueError, match="max_restarts"):
        rl.make_vec(Script, max_restarts=-1)
    ours = rl.make_vec("CartPole-v1", 2, seed=1)
    with pytest.raises(rl.RLError, match=r"reset\(\) begins the first"):
        ours.step(np.array([0, 1]))
    ours.reset()
    with pytest.raises(ValueError, match=r"the actions have the shape \(3,\).*\(2,\)"):
        ours.step(np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="3 seeds for 2"):
        ours.reset(seed=[1, 2, 3])
