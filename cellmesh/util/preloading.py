"""Modules that workers have from their birth."""

from __future__ import annotations

from ..scheduler.ipc.messages import MAX_NAME_CHARS, MAX_PRELOADS, PreloadModules
from ..session.current import current


def preload(*modules: str) -> None:
    """Import modules once, in the process that forks this machine's workers, so that workers which begin from now on
    have them at once, and share their memory.

    It returns at once; workers that are to begin meanwhile wait until the modules are imported. For modules that take
    long and that most tasks need: torch takes more than a second. What is imported must start no thread.

    Parameters
    ----------
    *modules : str
        Names as in `import`; up to 64 in a session. One that is there already is not imported again, and one that
        cannot be imported is an error of the task that imports it.

    Raises
    ------
    ValueError
        A name is none of a module.
    """
    for name in modules:
        is_name = isinstance(name, str) and len(name) <= MAX_NAME_CHARS
        if not is_name or not all(part.isidentifier() for part in name.split(".")):
            raise ValueError(f"preload({name!r}): the name of a module, as in `import`, such as 'torch.distributed'")
    if len(modules) > MAX_PRELOADS:
        raise ValueError(f"preload(): {len(modules)} modules, and a session preloads at most {MAX_PRELOADS}")
    current().node.link.send(PreloadModules(list(modules)))
