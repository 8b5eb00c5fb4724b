"""Deliberate mistakes in the algorithms and the vector environments: a sign, a dropped mask, a forgotten discount. The
tests must catch every one.

    python tests/rl/mutants.py            # all; `make nightly`
    python tests/rl/mutants.py NAME       # one of them

Exit status 1 when a mutant survives.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent
sys.path.insert(0, str(TESTS.parent))
from support.mutation import Mutant, main

RL = TESTS.parents[1] / "cellmesh" / "rl"
LIMIT_S = 600
# The package is looked for in the folder of the mutant first; workers have the one without mistakes.
RUN = (
    "import pytest, sys, cellmesh.rl as rl; rl.__path__.insert(0, sys.argv[1]); "
    "sys.exit(pytest.main(['-q', '-x', '-p', 'no:cacheprovider', '-k', 'not workers', *sys.argv[2:]]))"
)


def mutant(name: str, test: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, file, old, new, test=test)


MUTANTS = [
    # ---- PPO
    mutant("downhill", "ppo", "ppo.py", "/ -len(old)", "/ len(old)"),
    mutant("what is clipped goes on", "ppo", "ppo.py", "gain.masked_fill(is_clipped, 0.0)", "gain"),
    mutant("no activation", "networks", "models/networks.py", "of_activation(g @ weight, x)", "g @ weight"),
    mutant("few columns learn nothing", "networks", "models/networks.py", ".add_((x.t() @ g).t())", ".add_(0)"),
    mutant("deviations learn nothing", "networks", "models/networks.py", ".add_(by_log_sd.sum(0))", ".add_(0)"),
    mutant("no score", "networks", "models/networks.py", "raw - parameters.sigmoid()", "-parameters.sigmoid()"),
    mutant("λ is forgotten", "ppo", "ppo.py", "decay = goes_on * np.float32(lam)", "decay = goes_on"),
    mutant(
        "an estimate goes on over the episode's end",
        "ppo",
        "ppo.py",
        "np.where(over, np.float32(0), np.float32(gamma))",
        "np.full_like(rewards, gamma)",
    ),
    mutant(
        "truncated is terminated",
        "ppo",
        "ppo.py",
        "rewards[list(steps), list(envs)] += h.gamma * value(np.stack(last))[:, 0]",
        "pass",
    ),
    mutant(
        "terminated is truncated", "ppo", "rollout.py", "np.flatnonzero(cut & ~terminated)", "np.flatnonzero(over[t])"
    ),
    mutant("Adam is not restored", "ppo", "ppo.py", 'self._adam.load_state_dict(state["adam"])', "pass"),
    mutant("moments are not restored", "ppo", "ppo.py", 'self._moments = state["moments"]', "pass"),
    mutant("any algorithm's checkpoint", "ppo", "saving.py", 'if about.get("algorithm") != algorithm:', "if False:"),
    # ---- DQN
    mutant(
        "what terminated goes on",
        "replay",
        "replay.py",
        "goes_on = 0.0 if terminated[i] else self.gamma ** len(steps)",
        "goes_on = self.gamma ** len(steps)",
    ),
    mutant("one step's discount", "replay", "replay.py", "else self.gamma ** len(steps)", "else self.gamma"),
    mutant("one network alone", "dqn", "dqn.py", '(q(rows["following"]) if double else said)', "said"),
    mutant("the target stays", "dqn", "dqn.py", "if self._n_updates % h.target_every == 0:", "if False:"),
    mutant("weights the wrong way", "replay", "replay.py", "** -self.beta", "** self.beta"),
    mutant("α is forgotten", "replay", "replay.py", "priorities.astype(np.float64) ** self.alpha", "priorities + 0.0"),
    mutant("a half tree", "replay", "replay.py", "+ self._nodes[2 * nodes + 1]", "+ 0.0"),
    # ---- Ape-X
    mutant(
        "all explore alike",
        "apex",
        "apex.py",
        "epsilon ** (1 + alpha * np.arange(n)",
        "epsilon ** (1 + 0 * np.arange(n)",
    ),
    mutant(
        "each player is the first", "apex", "apex.py", "of_all[place.number * n : (place.number + 1) * n]", "of_all[:n]"
    ),
    mutant(
        "priorities are the highest",
        "apex",
        "apex.py",
        "self.replay.set_priorities(self.replay.add(played.rows), played.priorities)",
        "self.replay.add(played.rows)",
    ),
    mutant("what is open is not restored", "apex", "apex.py", 'self._n_steps = snapshot["n_steps"]', "pass"),
    mutant("players keep their first weights", "apex", "apex.py", "self.flat.load(self._shared_weights)", "pass"),
    # ---- A3C
    mutant(
        "returns go on over the episode's end",
        "a3c",
        "a3c.py",
        "np.where(over[t], np.float32(0), np.float32(gamma) * following)",
        "np.float32(gamma) * following",
    ),
    mutant(
        "what is cut off is worth nothing",
        "a3c",
        "a3c.py",
        "rewards[list(steps), list(envs)] += h.gamma * value(np.stack(last))[:, 0]",
        "pass",
    ),
    mutant("uphill", "a3c", "a3c.py", "value=-h.lr)", "value=h.lr)"),
    mutant("squares are of this gradient alone", "a3c", "a3c.py", "self._squares.mul_(h.rms_decay)", "self._squares"),
    mutant(
        "disorder is a loss", "a3c", "a3c.py", "- h.entropy_coefficient * spread", "+ h.entropy_coefficient * spread"
    ),
    mutant("own weights", "a3c", "a3c.py", "local.flat.load(self._shared.weights)", "pass"),
    mutant("NaN is shared", "a3c", "a3c.py", "if np.isfinite(told).all():", "if True:"),
    mutant(
        "squares are not restored", "a3c", "a3c.py", 'state["weights"], state["squares"], 0', 'state["weights"], 0, 0'
    ),
    # ---- evolution strategies
    mutant("there and there", "es", "es.py", "for sign in (1, -1)", "for sign in (1, 1)"),
    mutant("the sum of both", "es", "es.py", "(there - back)", "(there + back)"),
    mutant("NaN is an action", "es", "es.py", "and np.isnan(rows).any()", "and False"),
    mutant("NaN is a return", "es", "es.py", "if total != total:", "if False:"),
    mutant("equal values differ", "es", "es.py", "(counts - 1) / 2", "0"),
    # ---- environments
    mutant("NaN passes", "vector", "envs/block.py", "if (total := flat.dot(flat)) != total:", "if False:"),
    mutant(
        "who dies in a reset is not replaced",
        "vector",
        "envs/vector.py",
        "anew if mask is None else None",
        "None",
    ),
    mutant(
        "what is truncated is not reset",
        "vector",
        "envs/block.py",
        "np.logical_or(arrays.terminations, arrays.truncations, out=self._over)",
        "np.copyto(self._over, arrays.terminations)",
    ),
    mutant(
        "a reset is paid",
        "vector",
        "envs/block.py",
        "= 0.0, False, False\n            else",
        "= 1.0, False, False\n            else",
    ),
]


def caught_by(mutant: Mutant, folder: Path) -> str:
    """The test that fails, or an empty string."""
    names = [mutant.test] if mutant.test else sorted({one.test for one in MUTANTS})
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(folder), *(str(TESTS / f"test_{name}.py") for name in names)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    found = re.search(r"^(?:FAILED|ERROR) \S*?(\w+)\.py(?:::(\w+))?", done.stdout, re.M)
    if done.returncode and found is None:
        sys.exit(f"the tests do not run with the mutant {mutant.name!r}:\n{done.stdout}{done.stderr}")
    return (found[2] or found[1]) if found else ""


if __name__ == "__main__":
    sys.exit(main(MUTANTS, RL, caught_by))
