"""What a worker has from its birth of what its program has imported; the zygote imports it (see `trial`).

A task with a `runtime_env` may need another version of a package, or variables that a package reads when it is
imported. So its process lets go of all of it, and imports what it needs itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager

INSTALLED = ("/site-packages/", "/dist-packages/")
# Libraries that read how many threads they may have when they are loaded, and what sets it later.
_THREADED = ("libgomp", "libiomp", "libomp", "libopenblas", "libscipy_openblas")
_SETTERS = (
    "omp_set_num_threads",
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)

modules: list[str] = []  # all of packages of which nothing was there before
libraries: list[str] = []  # paths of the threaded ones that came with them


@contextmanager
def noting() -> Generator[None, None, None]:
    """What is imported meanwhile is such."""
    tops = {name.partition(".")[0] for name in sys.modules} - {name.partition(".")[0] for name in modules}
    there, loaded = set(modules), {*_loaded(), *libraries}
    try:
        yield
    finally:
        new = [name for name in sys.modules if name not in there and name.partition(".")[0] not in tops]
        modules.extend(name for name in new if is_installed(name.partition(".")[0]))
        libraries.extend(path for path in _loaded() if path not in loaded)


def is_installed(top: str) -> bool:
    """Whether a module lies in a folder of installed ones."""
    file = getattr(sys.modules.get(top), "__dict__", {}).get("__file__")
    return isinstance(file, str) and any(folder in file for folder in INSTALLED)


def forget() -> None:
    """Have this process import all of it anew, when it needs it."""
    for name in modules:
        sys.modules.pop(name, None)
    modules.clear()


def set_threads(n: int) -> None:
    """Tell the libraries, which had variables for that when they were loaded, how many threads they may use now."""
    if not libraries:
        return
    import ctypes  # 5 ms that no driver is to pay

    for path in libraries:
        library = ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_LAZY)
        setter = next((getattr(library, name) for name in _SETTERS if hasattr(library, name)), None)
        if setter is not None:
            setter(ctypes.c_int(n))


def _loaded() -> list[str]:
    with open("/proc/self/maps") as file:
        paths = dict.fromkeys(line.split(maxsplit=5)[5].rstrip("\n") for line in file if line.count("/") > 1)
    return [path for path in paths if os.path.basename(path).startswith(_THREADED)]
