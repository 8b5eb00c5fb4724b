"""What Ray Tune makes of the spaces in `spaces.py`: run with the Python of an environment that has Ray.

    PYTHON_WITH_RAY tests/tune/space/record.py

It writes `ray_spaces.json`, with which `test_expand.py` compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> None:
    import ray
    from ray import tune
    from ray.tune.search.variant_generator import _count_spec_samples, generate_variants

    sys.path.insert(0, str(HERE))
    from spaces import spaces

    found = {}
    for name, space in spaces(tune).items():
        configs = [spec["config"] for _, spec in generate_variants({"config": space}, random_state=0)]
        found[name] = {"count": _count_spec_samples({"config": space}), "configs": configs}
    record = {"ray": ray.__version__, "spaces": found}
    (HERE / "ray_spaces.json").write_text(f"{json.dumps(record, indent=1)}\n")


if __name__ == "__main__":
    main()
