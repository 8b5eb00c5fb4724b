"""`python -m cellmesh.compat.ray.rllib.train`: RLlib's train.py of 2018, said in `cellmesh rl train`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

_SAME = {
    "--run": "--run",
    "--env": "--env",
    "--stop": "--stop",
    "--config": "--config",
    "--repeat": "--num-samples",
    "--num-samples": "--num-samples",
    "--resources": "--resources",
    "--trial-resources": "--resources",
    "--resources-per-trial": "--resources",
    "--checkpoint-freq": "--checkpoint-freq",
    "--num-cpus": "--num-cpus",
}
_IGNORED = ("--experiment-name", "--num-gpus", "--redis-address", "--ray-num-cpus", "--ray-address")


def translated(arguments: Sequence[str]) -> list[str]:
    """The command line of cellmesh.

    Raises
    ------
    SystemExit
        It is none of RLlib's; argparse has said what is.
    """
    parser = argparse.ArgumentParser(
        prog="python -m cellmesh.compat.ray.rllib.train",
        description="`cellmesh rl train` with the options of RLlib's train.py.",
        allow_abbrev=False,
    )
    parser.add_argument("-f", "--config-file", metavar="FILE", help="experiments in YAML")
    for option in _SAME:
        parser.add_argument(option, dest=option)
    for option in _IGNORED:
        parser.add_argument(option, help=argparse.SUPPRESS)
    given = vars(parser.parse_args(arguments))
    file = given["config_file"]
    told = ["rl", "train", *(["-f", file] if file else [])]
    for rays, ours in _SAME.items():
        if given[rays] is not None:
            told += [ours, given[rays]]
    return told


if __name__ == "__main__":
    from ....cli.main import main

    sys.exit(main(translated(sys.argv[1:])))
