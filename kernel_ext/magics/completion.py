"""TAB in the line of a magic completes its flags, and variables that hold futures where the magic takes futures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.completer import SimpleCompletion, context_matcher

from . import arguments

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext, SimpleMatcherResult
    from IPython.core.interactiveshell import InteractiveShell


@context_matcher()
def complete_flags(context: CompletionContext) -> SimpleMatcherResult:
    """The flags of the magic in whose line the cursor is, where a flag has begun."""
    words = context.text_until_cursor.split()
    magic = next((magic for magic in arguments.ALL if words and magic.name == words[0]), None)
    token = context.token
    if magic is None or not token.startswith("-"):
        return {"completions": []}
    used = set(words[1:]) - {token}
    free = [flag for flag in magic.flags if not used & set(flag.spellings)]
    flags = [name for name in (*(flag.name for flag in free), *(flag.short for flag in free)) if name.startswith(token)]
    completions = [SimpleCompletion(flag, type="param") for flag in flags]
    return {"completions": completions, "suppress": bool(flags), "ordered": True}


def variables_matcher(shell: InteractiveShell) -> Any:
    """A matcher of the variables of this shell."""

    @context_matcher()
    def complete(context: CompletionContext) -> SimpleMatcherResult:
        return complete_variables(context, shell.user_ns)

    return complete


@context_matcher()
def complete_tune(context: CompletionContext) -> SimpleMatcherResult:
    """Names of experiments and what can be done with them in the line of %tune; of schedulers and searchers in that of
    %%tune.
    """
    first, *words = context.text_until_cursor.split() or [""]
    before = words[:-1] if context.token else words
    there: Iterable[str] = ()
    if first == "%tune" and len(before) < 2:
        from ..tune.listing import ACTIONS, names

        there = [*ACTIONS, *names()] if not before else names() if before[0] in ACTIONS else ()
    elif first == "%%tune" and before and before[-1] in ("--scheduler", "--search"):
        from ...tune.schedulers import SCHEDULERS
        from ...tune.search.make import NAMES

        there = SCHEDULERS if before[-1] == "--scheduler" else NAMES
    found = [SimpleCompletion(name, type="param") for name in there if name.startswith(context.token)]
    return {"completions": found, "suppress": bool(found), "ordered": True}


@context_matcher()
def complete_ranks(context: CompletionContext) -> SimpleMatcherResult:
    """What can be done with ranks in the line of %ranks."""
    words = context.text_until_cursor.split()
    found: list[SimpleCompletion] = []
    if words[:1] == ["%ranks"] and len(words) <= (2 if context.token else 1):
        from ..ranks.ranks import ACTIONS

        found = [SimpleCompletion(word, type="param") for word in ACTIONS if word.startswith(context.token)]
    return {"completions": found, "suppress": bool(found), "ordered": True}


def complete_variables(context: CompletionContext, namespace: Mapping[str, Any]) -> SimpleMatcherResult:
    """What fits where the cursor is, of the variables in `namespace`."""
    first, *words = context.text_until_cursor.split() or [""]
    magic = next((magic for magic in arguments.ALL if magic.name == first), None)
    token = context.token
    before = words[:-1] if token else words
    flag = magic.flag_at(before) if magic is not None and not token.startswith("-") else None
    if flag is None or not flag.holds:
        return {"completions": []}
    names = {name for name in _holders(namespace, flag.holds) if name.startswith(token) and name not in before}
    if not token.startswith("_"):
        names = {name for name in names if not name.startswith("_")}
    return {
        "completions": [SimpleCompletion(name, type="instance") for name in sorted(names)],
        "suppress": True,
        "ordered": True,
    }


def _holders(namespace: Mapping[str, Any], holds: frozenset[str]) -> Iterator[str]:
    from ...submit.actor import ActorHandle
    from ..cells.find_refs import refs_in

    variables = {name: value for name, value in namespace.items() if name not in ("In", "Out")}
    if "futures" in holds:
        yield from (name for name, _ in refs_in(variables))
    if "actors" in holds:
        yield from (name for name, value in variables.items() if isinstance(value, ActorHandle))
