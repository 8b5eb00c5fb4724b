"""`cellmesh rl train | evaluate | list`: reinforcement learning without a program."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .failures import CommandError
from .sessions import UsageError


def add_rl(parser: argparse.ArgumentParser, as_json: argparse.ArgumentParser) -> None:
    """The commands below `cellmesh rl`."""
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")

    def command(name: str, run: Any, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", parents=parents)
        added.set_defaults(run=run)
        return added

    one = command("train", train, "train a policy, or search for what trains it best")
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("--run", dest="algorithm", metavar="ALGORITHM", help="PPO, DQN, ApexDQN, A3C or ES")
    which.add_argument(
        "-f", "--file", metavar="FILE", help="experiments in YAML: {name: {run, env, stop, config, ...}}"
    )
    one.add_argument("--env", metavar="ID", help="of an environment of gymnasium, such as CartPole-v1")
    one.add_argument("--stop", type=_mapping, metavar="JSON", help="when it ends: '{\"episode_return_mean\": 475}'")
    one.add_argument("--config", type=_mapping, metavar="JSON", help='its arguments; {"grid_search": [...]} tries each')
    one.add_argument("--num-samples", type=int, metavar="N", help="trials of each configuration (default: 1)")
    one.add_argument("--resources", type=_mapping, metavar="JSON", help='of each trial (default: {"cpu": 1})')
    one.add_argument(
        "--checkpoint-freq", type=int, metavar="N", help="a checkpoint every N iterations, beside that of the end"
    )
    one.add_argument(
        "--checkpoint-dir",
        metavar="DIR",
        help="copy the best trial's last checkpoint here; with -f into a folder for each experiment",
    )
    one.add_argument("--num-cpus", type=float, metavar="N", help="of the session (default: this machine's)")

    two = command("evaluate", evaluate, "play episodes with a policy, each action the most likely one", as_json)
    two.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder; it is unpickled: load only what you trust")
    two.add_argument("--env", metavar="ID", help="default: the one that it was trained in")
    two.add_argument("--episodes", type=int, default=10, metavar="N", help="how many (default: %(default)s)")
    two.add_argument("--seed", type=int, metavar="N", help="of the episodes")

    three = command("list", list_algorithms, "the algorithms, and what each takes, with defaults", as_json)
    three.add_argument("algorithm", nargs="?", metavar="ALGORITHM", help="only this one")


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'{text!r} is no mapping, such as {{"lr": 0.001}}')
    return value


# ---- training
def train(options: argparse.Namespace) -> int:
    """Run each experiment, one after the other; 1 if a trial of one has failed."""
    specs = _specs(options)
    folders = {name: _folder_for(options.checkpoint_dir, name if options.file else "") for name in specs}
    from ..startup.init import init, shutdown

    init(**({} if options.num_cpus is None else {"num_cpus": options.num_cpus}))
    try:
        return max([_train(name, spec, folders[name]) for name, spec in specs.items()])
    finally:
        shutdown()


def _train(name: str, spec: Any, folder: Path | None) -> int:
    from ..exceptions import CellmeshError
    from ..tune import CheckpointConfig, RunConfig, Tuner

    given = {"storage_path": spec.storage_path} if spec.storage_path else {}
    checkpoints = CheckpointConfig(
        checkpoint_frequency=spec.checkpoint_frequency, checkpoint_at_end=spec.checkpoint_at_end
    )
    try:
        tuner = Tuner(
            spec.algorithm,
            spec.config,
            metric="episode_return_mean",
            mode="max",
            num_samples=spec.num_samples,
            stop=spec.stop,
            resources=spec.resources,
            max_failures=spec.max_failures,
            run_config=RunConfig(checkpoint_config=checkpoints, **given),
        )
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: {error}") from None
    try:
        results = tuner.fit()
    except CellmeshError as error:
        raise CommandError(f"{name}: {error}") from None
    failed = [result for result in results if result.error]
    for result in failed:
        print(f"{name}: trial {result.number} has failed: {result.error}")
    if len(failed) == len(results):
        return 1
    best = results.best
    found = best.metrics
    print(
        f"{name}: mean return {found['episode_return_mean']:.6g} after {found['timesteps_total']:,} steps, "
        f"trial {best.number}"
    )
    if best.checkpoint is not None:
        if folder is not None:
            _copy(best.checkpoint, folder)
        print(f"{name}: checkpoint in {folder or best.checkpoint.path}")
    return 1 if failed else 0


def _copy(checkpoint: Any, folder: Path) -> None:
    """In the place of a checkpoint that is there."""
    beside = folder.with_name(f".{folder.name}-new")
    shutil.rmtree(beside, ignore_errors=True)
    with checkpoint.as_directory() as there:
        shutil.copytree(there, beside)
    if folder.exists():
        shutil.rmtree(folder)
    beside.rename(folder)


def _folder_for(given: str | None, name: str) -> Path | None:
    from ..rl.saving import ABOUT

    if given is None:
        return None
    folder = Path(given, name).absolute()
    if folder.exists() and any(folder.iterdir()) and not (folder / ABOUT).exists():
        raise UsageError(f"--checkpoint-dir: {folder} is there, and is no checkpoint: give another folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    return folder


def _specs(options: argparse.Namespace) -> dict[str, Any]:
    specs = _library()
    alone = {
        "env": options.env,
        "stop": options.stop,
        "config": options.config,
        "num_samples": options.num_samples,
        "resources": options.resources,
        "checkpoint_frequency": options.checkpoint_freq,
    }
    alone = {name: value for name, value in alone.items() if value is not None}
    if options.file is None:
        experiments: Mapping[str, Any] = {options.algorithm: {"run": options.algorithm, **alone}}
    elif alone:
        raise UsageError(f"{', '.join(alone)}: stands in the file, where there is one")
    else:
        experiments = _read(options.file)
    try:
        return {str(name): specs.spec_of(str(name), spec) for name, spec in experiments.items()}
    except specs.SpecError as error:
        raise UsageError(str(error)) from None


def _read(path: str) -> Mapping[str, Any]:
    try:
        import yaml
    except ModuleNotFoundError:
        raise CommandError("-f reads YAML, which needs PyYAML: pip install 'cellmesh[rl]'") from None
    try:
        found = yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no YAML: {error}") from None
    if not isinstance(found, dict) or not found:
        raise UsageError(f"{path}: a mapping of names to experiments, {{name: {{run: PPO, env: CartPole-v1, ...}}}}")
    return found


def _library() -> Any:
    try:
        from ..rl import PPO, specs
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "gymnasium"):
            raise
        raise CommandError(f"{error.name} is not installed: pip install 'cellmesh[rl]'") from None
    del PPO  # which needs torch
    return specs


# ---- looking
def evaluate(options: argparse.Namespace) -> int:
    """Returns of episodes."""
    _library()
    import gymnasium as gym
    import numpy as np

    from ..rl import CheckpointError, Policy
    from ..rl.envs.makers import makers_of
    from ..rl.episodes.evaluation import play
    from ..rl.saving import algorithm_of, read_state

    if options.episodes < 1:
        raise UsageError(f"--episodes {options.episodes}: at least 1")
    try:
        policy = Policy.load(options.checkpoint)
        config = {} if options.env else read_state(options.checkpoint, algorithm_of(options.checkpoint))["config"]
        (make,) = makers_of(options.env or config["env"], 1, (), config.get("env_config") or {})
        env = make()
    except (CheckpointError, gym.error.Error, ModuleNotFoundError) as error:
        raise CommandError(str(error)) from None
    try:
        if env.observation_space != policy.observation_space or env.action_space != policy.action_space:
            raise CommandError(
                f"the policy is of the spaces {policy.observation_space} and {policy.action_space}, and the "
                f"environment has {env.observation_space} and {env.action_space}"
            )
        seeds = np.random.default_rng(options.seed).integers(2**31, size=options.episodes)
        returns = [play(policy, env, int(seed)) for seed in seeds]
    finally:
        env.close()
    if options.json:
        print(json.dumps({"episode_returns": returns}))
    else:
        print(
            f"{len(returns)} episodes: mean return {np.mean(returns):.6g}, standard deviation {np.std(returns):.6g}, "
            f"{min(returns):.6g} to {max(returns):.6g}"
        )
    return 0


def list_algorithms(options: argparse.Namespace) -> int:
    """What each algorithm takes."""
    specs = _library()
    try:
        names = specs.ALGORITHMS if options.algorithm is None else (specs.algorithm_of(options.algorithm).__name__,)
    except specs.SpecError as error:
        raise UsageError(str(error)) from None
    algorithms = {name: specs.algorithm_of(name) for name in names}
    fields = {name: dataclasses.fields(one.Hyperparameters) for name, one in algorithms.items()}
    if options.json:
        print(json.dumps({name: {one.name: one.default for one in fields[name]} for name in names}))
        return 0
    for name in names:
        print(f"{name}  {(algorithms[name].__doc__ or '').split(';')[0].strip()}")
        width = max(len(one.name) for one in fields[name])
        for one in fields[name]:
            print(f"  {one.name:<{width}}  {_shown(one.default):<12} {_allowed(one.metadata)}".rstrip())
    return 0


def _shown(default: Any) -> str:
    return " ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _allowed(rule: Mapping[str, Any]) -> str:
    if "least" not in rule:
        return "widths of layers" if "sizes" in rule else ""
    most = "" if rule["most"] == float("inf") else f", at most {rule['most']:g}"
    return f"{'whole, ' if rule['whole'] else ''}{'above' if rule['above'] else 'at least'} {rule['least']:g}{most}"
