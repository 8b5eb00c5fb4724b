"""Which argument of a task it was that could not be unpickled.

The arguments of a call that need pickle are pickled together, so that they may share what they hold; pickle does not
say at which of them it failed. It is found by doing it again, slowly: by Python's own `pickle`, which counts its steps,
and by the steps at which each argument ends. What takes long is not done again; then the error names those that it may
have been.
"""

from __future__ import annotations

import inspect
import io
import pickle
import pickletools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from ..environment import gpus
from ..objstore.annotations import get_signature
from .escapes import ends_process

AGAIN_S = 0.2  # what has failed within this time is looked at again
AGAIN_BYTES = 1 << 20
NO_GPU = "Attempting to deserialize object on a CUDA device"  # as torch says it

Layout = tuple[int, tuple[str, ...] | None, list[int]]  # see `codec_args_layout`
TOGETHER = -1  # in its list: pickled with the others


class Failed(NamedTuple):
    """The number of the argument that failed, of those that are pickled together, and the first of them."""

    number: int
    first: Any


class _Counting(pickle._Unpickler):
    stack: list[Any]
    metastack: list[list[Any]]
    n_steps = 0
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {}


def _counted(step: Callable[[Any], None]) -> Callable[[Any], None]:
    def run(self: _Counting) -> None:
        self.n_steps += 1
        step(self)

    return run


_Counting.dispatch = {key: _counted(step) for key, step in pickle._Unpickler.dispatch.items()}


def find(data: Any, buffers: Sequence[Any]) -> Failed | None:
    """Look for the one that fails among arguments that are pickled together; None: it cannot be told."""
    if memoryview(data).nbytes > AGAIN_BYTES:
        return None
    unpickler = _Counting(io.BytesIO(data), buffers=buffers)
    try:
        unpickler.load()
    except BaseException as error:  # what the user's classes raise, which is being told already
        if ends_process(error):
            raise
        at = unpickler.n_steps - 1
    else:
        return None  # not this time
    number = sum(end < at for end in _ends(bytes(data)))
    made = unpickler.metastack[0] or unpickler.stack if unpickler.metastack else unpickler.stack
    return Failed(number, made[0] if number and made else None)


def _ends(data: bytes) -> list[int]:
    """The numbers of the steps with which each item of a pickled tuple is complete."""
    depths: list[int] = []  # of the stack after each step
    marks: list[int] = []
    last = depth = 0
    for number, (code, _argument, _) in enumerate(pickletools.genops(data)):
        before, after = code.stack_before, code.stack_after
        if code.name == "MARK":
            marks.append(depth)
        elif pickletools.markobject in before:
            depth = marks.pop() - before.index(pickletools.markobject) + len(after)
        else:
            depth += len(after) - len(before)
        if code.name.startswith("TUPLE"):
            last = number
        depths.append(depth)
    ends: dict[int, int] = {}  # by depth
    lowest = depths[last - 1] if last else 0
    for number in reversed(range(last)):
        lowest = min(lowest, depths[number])
        ends.setdefault(lowest, number)
    return [ends[depth] for depth in sorted(ends) if depth]


def remedy(error: Exception) -> str:
    """What is to be done, where that is known from the error."""
    if isinstance(error, RuntimeError) and str(error).startswith(NO_GPU) and not gpus.ids:
        return (
            " It has a tensor of a GPU, and the task has no GPU: num_gpus=1 reserves one, tensor.cpu() goes anywhere."
        )
    return ""


def in_words(code: Any, task: str, layout: Layout, dependency: int, failed: Failed | None, first: Any = None) -> str:
    """What the error says: the argument by its parameter, as far as that is known, and the task.

    Parameters
    ----------
    code : callable
        What is called with the arguments.
    task : str
        The name of the task.
    layout : tuple
        Where each value is taken from.
    dependency : int
        The number of the one that failed, if it lies in the store by itself; -1: it is one of those that are pickled
        together.
    failed : Failed or None
        Which of these, if that is known.
    first : object
        The first argument of the call, if that is known.
    """
    n_positional, keywords, kinds = layout
    candidates = [i for i, kind in enumerate(kinds) if kind == (dependency if dependency >= 0 else TOGETHER)]
    if failed is not None and 0 in candidates:
        first = failed.first
    if dependency < 0 and failed is not None and failed.number < len(candidates):
        candidates = [candidates[failed.number]]
    parameters = _parameters(code)
    names = [_name_of(parameters, i, n_positional, keywords or (), first) for i in candidates]
    if len(names) == 1 or dependency >= 0:  # given twice it is one object
        return f"The argument {names[0]} of the task {task!r} could not be unpickled."
    return f"One of the arguments {', '.join(names)} of the task {task!r} could not be unpickled."


def before_it_is_sent(
    task: str, signature: Any, within: Sequence[int], values: Sequence[Any], n_positional: int, keywords: Sequence[str]
) -> str:
    """What the error says where an argument cannot be pickled.

    Parameters
    ----------
    task : str
        The name of the task.
    signature : inspect.Signature or None
        Of what is called, if it is known.
    within : sequence of int
        See `serializability.pickling_error`: the id of an argument, or else of all together and then of each.
    values : sequence
        The arguments, those by position first.
    n_positional : int
    keywords : sequence of str
        Of the others.
    """
    parameters = list(signature.parameters.values()) if signature is not None else None
    first = values[0] if n_positional else None
    ids = [id(value) for value in values]
    meant = within[:1] if within and within[0] in ids else within[1:]
    names = [_name_of(parameters, i, n_positional, keywords, first) for i, of in enumerate(ids) if of in meant]
    if not names:
        return f"It is an argument of the task {task!r}."
    if len(names) == 1:
        return f"It is the argument {names[0]} of the task {task!r}."
    return f"They are in the arguments {', '.join(names)} of the task {task!r}."


def _parameters(code: Any) -> list[inspect.Parameter] | None:
    try:
        return list(get_signature(code).parameters.values())
    except (TypeError, ValueError):  # a builtin
        return None


def _name_of(
    parameters: Sequence[inspect.Parameter] | None,
    position: int,
    n_positional: int,
    keywords: Sequence[str],
    first: Any,
) -> str:
    if position >= n_positional:
        return repr(keywords[position - n_positional])
    variables = getattr(first, "names", None)
    if isinstance(variables, tuple) and 0 < position <= len(
        variables
    ):  # of a cell, see `kernel_ext.cell_task.run_cell`
        return repr(variables[position - 1])
    if parameters is None:
        return f"number {position + 1}"
    several = next(
        (i for i, parameter in enumerate(parameters) if parameter.kind is parameter.VAR_POSITIONAL), len(parameters)
    )
    if position < several:
        return repr(parameters[position].name)
    return (
        repr(f"{parameters[several].name}[{position - several}]")
        if several < len(parameters)
        else f"number {position + 1}"
    )
