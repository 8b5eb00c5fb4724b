"""Checks every model, and that each of its mutants is caught.

python models/run.py              # exit status 1 if a model is wrong or a mutant survives
python models/run.py inbox        # one of them, with the way to what is wrong
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # also where PYTHONSAFEPATH leaves it out

import barrier
import condition
import inbox
import offload
import order
import seal
import takeover
import weak
from checker import explore

# Each with model(variant), MUTANTS, which are found, and perhaps SOUND, variants that are not.
MODELS: dict[str, Any] = {
    "barrier": barrier,
    "condition": condition,
    "inbox": inbox,
    "offload": offload,
    "order": order,
    "seal": seal,
    "takeover": takeover,
    **weak.PROTOCOLS,
}


def sound_variants(name: str) -> tuple[str, ...]:
    return ("", *getattr(MODELS[name], "SOUND", ()))


def check(name: str, show: bool) -> int:
    """The number of outcomes that should have been others."""
    module, n_wrong = MODELS[name], 0
    for variant in (*sound_variants(name), *module.MUTANTS):
        started = time.monotonic()
        result = explore(module.model(variant))
        is_mutant = variant in module.MUTANTS
        as_hoped = bool(result.wrong) == is_mutant
        n_wrong += not as_hoped
        verdict = (
            f"{'caught' if as_hoped else 'WRONG'}: {result.wrong} after {len(result.trace)} steps"
            if result.wrong
            else "SURVIVED"
            if is_mutant
            else "sound"
        )
        print(
            f"{name:<16} {variant or 'as it is':<52} {result.n_states:>9,} states {time.monotonic() - started:6.1f} s "
            f" {verdict}",
            flush=True,
        )
        if result.wrong and (show or not as_hoped):
            print("\n".join(f"    {step}" for step in result.trace))
    return n_wrong


if __name__ == "__main__":
    names = sys.argv[1:] or list(MODELS)
    began = time.monotonic()
    failures = sum(check(name, show=len(sys.argv) > 1) for name in names)
    n_checked = sum(len(sound_variants(name)) + len(MODELS[name].MUTANTS) for name in names)
    print(f"{n_checked - failures} passed, {failures} failed in {time.monotonic() - began:.1f}s")
    sys.exit(failures > 0)
