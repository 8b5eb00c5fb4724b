"""Spaces in Optuna's words.

A parameter's name is its path, `model/width`; one inside the third option of a choice is `opt[2]/momentum`, so that
options may have parameters of the same name. What Optuna has no word for is given in another one:

- options that are no number, text, bool or None, or that are equal in Python, by their index;
- logarithmic domains with a step as the multiple of q, a whole number evenly distributed in its logarithm;
- functions of `sample_from` not at all: they are called afterwards, with what was suggested.

There is none for grids and for normal distributions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..space import Choice, Domain, Float, Function, Grid, Integer, Normal, SpaceError, same
from ..space.tree import Thawed, children, thaw

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution

Params = dict[str, Any]
REMEDIES: dict[type[Domain], str] = {
    Grid: "Optuna goes through no grid; make it a choice, or leave search_alg away",
    Normal: "Optuna has no normal distribution; take uniform(mean - 3 * sd, mean + 3 * sd), or a sample_from that "
    "draws from its argument rng",
}


def import_optuna() -> Any:
    """Optuna, or an error that says how to get it."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        text = "Optuna is not installed: pip install 'cellmesh[tune]'"
        raise ModuleNotFoundError(text, name="optuna") from None
    return optuna


class OptunaSpace:
    """A space that Optuna's trials are asked for.

    Parameters
    ----------
    tree : dict
        Thawed. Leaves may be distributions of Optuna, too.

    Raises
    ------
    SpaceError
        It has something inside for which Optuna has no word, or two parameters of one name.
    """

    def __init__(self, tree: dict[str, Any]) -> None:
        self._distributions = import_optuna().distributions
        self.tree = tree
        seen: set[str] = set()
        self.categorical: list[str] = []  # names of what has no order
        for name, leaf in self._all(tree, ""):
            if (remedy := REMEDIES.get(type(leaf))) is not None:
                raise SpaceError(f"{name}: {leaf!r}: {remedy}")
            if name in seen:
                raise SpaceError(f"two parameters are {name} for Optuna; rename a key")
            seen.add(name)
            if isinstance(self.distribution(leaf), self._distributions.CategoricalDistribution):
                self.categorical.append(name)
        self.is_empty: bool = not seen

    def _all(self, node: Any, name: str) -> Iterator[tuple[str, Any]]:
        """All that Optuna would be asked for, by name, inside options, too."""
        if self._is_asked(node):
            yield name, node
            if isinstance(node, Choice):
                for index, option in enumerate(node.options):
                    yield from self._all(thaw(option), f"{name}[{index}]")
        else:
            for key, child in children(node):
                yield from self._all(child, _joined(name, key))

    def _is_asked(self, node: Any) -> bool:
        return isinstance(node, self._distributions.BaseDistribution) or (
            isinstance(node, Domain) and not isinstance(node, Function)
        )

    # ---- suggesting
    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """The tree with what this trial suggests; functions of `sample_from` are left in it."""
        return self._suggested(self.tree, "", trial)

    def _suggested(self, node: Any, name: str, trial: optuna.Trial) -> Any:
        if not self._is_asked(node):
            return _mapped(node, name, lambda child, inner: self._suggested(child, inner, trial))
        param = ask(trial, name, self.distribution(node))
        if not isinstance(node, Choice):
            return _value_of(node, param)
        index = param if _is_by_index(node) else _index_of(node, param)
        return self._suggested(thaw(node.options[index]), f"{name}[{index}]", trial)

    # ---- the way back
    def params(self, config: Mapping[str, Any]) -> tuple[Params, dict[str, BaseDistribution]]:
        """The parameters, and their distributions, with which Optuna would suggest a configuration. Where it lacks a
        key, these are fewer.

        Raises
        ------
        SpaceError
            It has a key that the space has not, or a value that is none of a choice.
        """
        params: Params = {}
        distributions: dict[str, BaseDistribution] = {}
        self._read(self.tree, config, "", params, distributions)
        return params, distributions

    def _read(
        self, node: Any, value: Any, name: str, params: Params, distributions: dict[str, BaseDistribution]
    ) -> None:
        if isinstance(node, Choice):
            index = self._chosen(node, value)
            if index is None:
                raise SpaceError(f"{name}: {value!r} is none of {node!r}")
            params[name] = index if _is_by_index(node) else node.options[index]
            distributions[name] = self.distribution(node)
            self._read(thaw(node.options[index]), value, f"{name}[{index}]", params, distributions)
        elif self._is_asked(node):
            params[name], distributions[name] = _param_of(node, value), self.distribution(node)
        elif isinstance(node, dict) and isinstance(value, Mapping):
            for key, each in value.items():
                if key not in node:
                    raise SpaceError(f"the space has no {_joined(name, key)}; there are {', '.join(map(str, node))}")
                self._read(node[key], each, _joined(name, key), params, distributions)
        elif type(node) in (list, Thawed) and isinstance(value, (list, tuple)):
            for index, each in enumerate(value[: len(node)]):
                self._read(node[index], each, _joined(name, index), params, distributions)

    def _chosen(self, choice: Choice, value: Any) -> int | None:
        """The option that a value came from: 1 rather from 1 than from uniform(0, 1), which people mean by it, too."""
        for is_exact in (True, False):
            for index, option in enumerate(choice.options):
                if self._fits(thaw(option), value, is_exact):
                    return index
        return None

    def _fits(self, node: Any, value: Any, is_exact: bool) -> bool:
        """Whether a value may have come from an option; `is_exact`: in its type."""
        if isinstance(node, Choice):
            return any(self._fits(thaw(option), value, is_exact) for option in node.options)
        if isinstance(node, Domain):
            return node.contains(value) and (not is_exact or same(node.cast(value), value))
        if isinstance(node, dict):
            is_alike = isinstance(value, Mapping) and value.keys() == node.keys()
            return is_alike and all(self._fits(each, value[key], is_exact) for key, each in node.items())
        if type(node) in (list, Thawed):
            is_alike = type(value) is (tuple if type(node) is Thawed else list) and len(value) == len(node)
            return is_alike and all(self._fits(each, other, is_exact) for each, other in zip(node, value, strict=True))
        return same(node, value)

    def distribution(self, leaf: Any) -> Any:
        """Optuna's distribution for a domain."""
        known = self._distributions
        if isinstance(leaf, Float):
            if leaf.log and leaf.q is not None:
                return known.IntDistribution(round(leaf.lower / leaf.q), round(leaf.upper / leaf.q), log=True)
            return known.FloatDistribution(leaf.lower, leaf.upper, log=leaf.log, step=leaf.q)
        if isinstance(leaf, Integer):
            if leaf.log:
                return known.IntDistribution(*leaf.multiples, log=True)
            return known.IntDistribution(leaf.first, leaf.last, step=leaf.step)
        if isinstance(leaf, Choice):
            return known.CategoricalDistribution(range(len(leaf.options)) if _is_by_index(leaf) else leaf.options)
        return leaf


def ask(trial: optuna.Trial, name: str, distribution: Any) -> Any:
    """Ask a trial for a parameter."""
    kind = type(distribution).__name__
    if kind == "FloatDistribution":
        return trial.suggest_float(
            name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
        )
    if kind == "IntDistribution":
        return trial.suggest_int(
            name, distribution.low, distribution.high, step=distribution.step, log=distribution.log
        )
    if kind == "CategoricalDistribution":
        return trial.suggest_categorical(name, distribution.choices)
    raise SpaceError(f"{name}: {kind} is outdated; take FloatDistribution, IntDistribution or CategoricalDistribution")


def _joined(name: str, key: Any) -> str:
    return f"{name}/{key}" if name else str(key)


def _mapped(node: Any, name: str, change: Callable[[Any, str], Any]) -> Any:
    """A node of a thawed tree with its children changed; a leaf as it is."""
    if isinstance(node, dict):
        return {key: change(child, _joined(name, key)) for key, child in node.items()}
    if type(node) in (list, Thawed):
        return type(node)(change(child, _joined(name, index)) for index, child in enumerate(node))
    return node


def _is_by_index(choice: Choice) -> bool:
    """Whether Optuna cannot hold the options themselves."""
    plain = all(option is None or type(option) in (bool, int, float, str) for option in choice.options)
    finite = plain and not any(type(option) is float and not math.isfinite(option) for option in choice.options)
    return not finite or len(set(choice.options)) < len(choice.options)


def _index_of(choice: Choice, option: Any) -> int:
    return next(i for i, each in enumerate(choice.options) if same(each, option))


def _multiple_of(domain: Any) -> float | None:
    """What a parameter of Optuna counts, None: it is the value itself."""
    return domain.q if isinstance(domain, (Float, Integer)) and domain.log else None


def _value_of(domain: Any, param: Any) -> Any:
    """The value that a parameter of Optuna stands for."""
    if not isinstance(domain, Domain):
        return param
    return domain.cast(param * step if (step := _multiple_of(domain)) else param)


def _param_of(domain: Any, value: Any) -> Any:
    return round(value / step) if (step := _multiple_of(domain)) else value


class DefineByRun:
    """A space that a function writes: it asks the trial itself, and may return a dict of constants."""

    is_empty: bool = False
    categorical: Sequence[str] = ()  # it shows only as the function is called

    def __init__(self, function: Callable[[Any], Mapping[str, Any] | None]) -> None:
        self.function = function

    def suggest(self, trial: optuna.Trial) -> dict[str, Any]:
        """What the function has asked for and returned; "model/width" is in {"model": {"width": ...}}."""
        constants = self.function(trial)
        if constants is not None and not isinstance(constants, Mapping):
            name = getattr(self.function, "__name__", self.function)
            raise SpaceError(f"space={name} returned {constants!r}: a dict of constants or nothing is expected")
        tree: dict[str, Any] = {}
        for name, value in {**(constants or {}), **trial.params}.items():
            *folders, last = str(name).split("/")
            node = tree
            for folder in folders:
                node = node.setdefault(folder, {})
            node[last] = value
        return thaw(tree)

    def params(self, config: Mapping[str, Any]) -> tuple[Params, dict[str, BaseDistribution]]:
        """The parameters with which the function gives a configuration, and their distributions."""
        trial = import_optuna().trial.FixedTrial(flat(config))
        self.function(trial)
        return trial.params, trial.distributions


def flat(config: Mapping[str, Any], name: str = "") -> Params:
    """{"model": {"width": 3}} -> {"model/width": 3}."""
    found: Params = {}
    for key, value in config.items():
        inner = _joined(name, key)
        found |= flat(value, inner) if isinstance(value, Mapping) else {inner: value}
    return found


def space_of(given: Mapping[str, Any] | Callable[[Any], Any] | None, tree: dict[str, Any]) -> OptunaSpace | DefineByRun:
    """The space to ask for: `given` to the searcher, or the experiment's `tree`.

    Raises
    ------
    SpaceError
        There is none, both have domains, or Optuna has no word for something in it.
    """
    if given is None:
        space = OptunaSpace(tree)
        if space.is_empty:
            raise SpaceError("there is nothing to search: the space has no domain that Optuna is asked for")
        return space
    if not OptunaSpace(tree).is_empty:
        raise SpaceError("there are two spaces: give space= to Optuna, or domains in the experiment's space, not both")
    if isinstance(given, Mapping):
        return OptunaSpace(thaw(given))
    if callable(given):
        return DefineByRun(given)
    raise SpaceError(f"space={given!r}: give a dict of domains or of Optuna's distributions, or a function of a trial")
