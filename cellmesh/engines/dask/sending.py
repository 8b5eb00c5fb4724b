"""How packages of this program come to Dask's workers and its scheduler, also to workers that begin later. What does it
there travels by value, as these have nothing of cellmesh yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def unpacks(packages: Mapping[str, bytes]) -> Callable[[str], str]:
    """What unpacks these packages, zipped, in a folder of their own below one, and has imports find them first; it
    returns that folder, "" if they are there already. By value, as all here."""
    from hashlib import blake2b

    digest = blake2b(b"".join(packages.values()), digest_size=8).hexdigest()

    def unpack(below: str) -> str:
        import io
        import os
        import sys
        import tempfile
        import zipfile

        if any(os.path.basename(path).startswith(f"cellmesh-{digest}-") for path in sys.path):
            return ""
        folder = tempfile.mkdtemp(prefix=f"cellmesh-{digest}-", dir=below)
        for name, data in packages.items():
            with zipfile.ZipFile(io.BytesIO(data)) as packed:
                packed.extractall(os.path.join(folder, name))
        sys.path.insert(0, folder)
        return folder

    return unpack


def for_workers(plugin: Any, unpack: Callable[[str], str]) -> Any:
    """A plugin of Dask's that does so in each worker. `plugin`: the class `distributed.WorkerPlugin`."""

    class Packages(plugin):  # pyright: ignore[reportUntypedBaseClass] -- Dask is not known where types are checked
        def setup(self, worker: Any) -> None:
            unpack(worker.local_directory)  # which goes with it

    return Packages()


def for_scheduler(unpack: Callable[[str], str]) -> Callable[[], None]:
    """What does so in the scheduler."""

    def unpack_there() -> None:
        import atexit
        import shutil
        import tempfile

        if folder := unpack(tempfile.gettempdir()):
            atexit.register(shutil.rmtree, folder, ignore_errors=True)

    return unpack_there
