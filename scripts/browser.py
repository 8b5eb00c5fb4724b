"""Finds Chromium for the panel's tests, or installs it with the system's package manager.

    python scripts/browser.py             # prints its path, status 1 when there is none
    python scripts/browser.py --install   # apt-get install when absent and we are root

Playwright's own browser downloads are not used: a distribution's package works offline, behind mirrors and in CI alike.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))  # PYTHONSAFEPATH leaves it out
import apt

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")  # a headless page without any font draws no letters


def find() -> str | None:
    """The path of a Chromium, or None. CELLMESH_CHROMIUM names one explicitly."""
    named = os.environ.get("CELLMESH_CHROMIUM")
    if named:
        return named if os.access(named, os.X_OK) else None
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> str | None:
    """Install Chromium if that is possible here; None, or the reason why there is none."""
    return apt.install(f"Chromium ({', '.join(NAMES)})", find, PACKAGES)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", action="store_true")
    if parser.parse_args().install and (problem := install()):
        print(problem, file=sys.stderr)
        return 1
    print(find() or "no Chromium found")
    return 0 if find() else 1


if __name__ == "__main__":
    sys.exit(main())
