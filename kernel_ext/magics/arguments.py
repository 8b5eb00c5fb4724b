"""Which magic takes which flags: one table, from which parsing, `?`, completion and the documentation are made.

Flags that are options of tasks and actors, such as `--num-cpus`, come from `cellmesh/submit/flags.py`. Pure.
"""

from __future__ import annotations

import ast
import re
import shlex
from typing import Any, NamedTuple

from ...observe.states import TASKS, what_there_is
from ...submit import flags
from ...submit.flags import amount
from .line import Flag, Magic


def _flags(table: dict[str, flags.Written], *options: str) -> tuple[Flag, ...]:
    """The flags of options, as the table has them."""
    return tuple(
        Flag(
            flags.flag_of(option), (written := table[option]).help, written.metavar, written.parse, short=written.short
        )
        for option in options
    )


# ---- values


def names(text: str) -> list[str]:
    """Variables, separated by commas; empty for none."""
    found = [name.strip() for name in text.split(",") if name.strip()]
    for name in found:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not the name of a variable")
    return found


def variable(text: str) -> str:
    """The name of a variable."""
    if not text.isidentifier():
        raise ValueError(f"{text!r} is not the name of a variable")
    return text


def state(text: str) -> str:
    """A task's state."""
    if text not in TASKS:
        raise ValueError(what_there_is(text, TASKS))
    return text


def stop(text: str) -> dict[str, float]:
    """When a trial is to end: accuracy>=0.9,27 for a metric that has reached a bound, and a number of iterations."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, is_bound, bound = part.partition(">=")
        if not is_bound:
            name, bound = "training_iteration", part
        try:
            found[name.strip()] = float(bound)
        except ValueError:
            raise ValueError(
                f"{part.strip()!r} is neither metric>=number nor a number of iterations; a metric that is to become "
                "small needs a stopper: tune.Tuner(..., stop=...)"
            ) from None
    return found


class Made(NamedTuple):
    """A scheduler or a searcher, by its name and its options."""

    what: str
    name: str
    options: dict[str, Any]

    def made(self) -> Any:
        """It itself."""
        from importlib import import_module

        return import_module(f"cellmesh.tune.{self.what}").make(self.name, **self.options)


def scheduler(text: str) -> Made:
    """asha, or asha:max_t=27,reduction_factor=3."""
    return _made("schedulers", text)


def search(text: str) -> Made:
    """tpe, or tpe:n_startup_trials=5."""
    return _made("search", text)


def _made(what: str, text: str) -> Made:
    name, _, options = text.partition(":")
    try:
        call = ast.parse(f"f({options})", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        return Made(what, name, {str(one.arg): ast.literal_eval(one.value) for one in call.keywords})
    except (SyntaxError, ValueError, AssertionError):
        raise ValueError(
            f"{text!r} is not a name, or a name with options such as asha:max_t=27,grace_period=3"
        ) from None


def tune_words(line: str) -> list[str]:
    """The words of a line with parameters: in the brackets of `lr=loguniform(1e-4, 1e-1)` there may be spaces."""
    from ...tune.space import split_line

    return [part if _PARAMETER.match(part) else "".join(shlex.split(part)) for _, part in split_line(line)]


def code_words(line: str) -> list[str]:
    """Words with their quotes: in `runs["first"]` they belong to the name."""
    return shlex.split(line, comments=True, posix=False)


def names_or_count(text: str) -> list[str] | int:
    return int(text) if text.isdigit() else names(text)


def environment(text: str) -> dict[str, str]:
    """NAME=VALUE, several separated by commas."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, is_set, value = part.strip().partition("=")
        if not is_set or not name.isidentifier():
            raise ValueError(f"{part.strip()!r} is no variable and its value, such as OMP_NUM_THREADS=1")
        found[name] = value
    return found


def backend(text: str) -> str:
    """shared, gloo or nccl."""
    from ...train.backends import BACKENDS

    if text not in BACKENDS:
        raise ValueError(f"{text!r} is none of the backends {', '.join(BACKENDS)}")
    return text


# ---- the magics

_PARAMETER = re.compile(r"[^\W\d]\w*=")
FUTURES_HELD, ACTORS = frozenset(["futures"]), frozenset(["actors"])

REMOTE = Magic(
    "%%remote",
    "Run the cell as a task on another process, or make what it defines remote.",
    (
        *_flags(flags.OF_TASKS, *flags.OF_TASKS),
        Flag("--spread", "Short for --scheduling-strategy SPREAD.", means=("scheduling_strategy", "SPREAD")),
        Flag("--node", "The node to run on, by name, id or number (cellmesh.nodes() lists them).", "NODE"),
        Flag(
            "--returns",
            "Exactly these variables come back, in place of all that the cell assigns; empty ('') for none. "
            "In a cell of definitions it is short for --num-returns.",
            "NAMES",
            names_or_count,
        ),
        Flag(
            "--inputs",
            "Exactly these variables go along, in place of all that the cell reads; empty ('') for none.",
            "NAMES",
            names,
        ),
        Flag(
            "--on",
            "Run the cell in the process of this actor (a variable, or the actor's name), as if it were a method: "
            "self is the actor's instance. What the cell assigns stays there, for the next --on cell.",
            "ACTOR",
            holds=ACTORS,
        ),
        Flag("--progress", "Show a progress bar of the tasks that the cell's task submits in its turn, by function."),
        Flag("--wait", "Return when the task has ended; raise its error here."),
    ),
    """
    A cell that only defines (imports, functions, classes) is run here, and its functions become remote functions,
    its classes actor classes: f.remote(...), Simulator.remote(...). Exceptions, enums, records without methods and
    async functions stay what they are.

    Any other cell becomes one task. The variables that it reads are sent along: values by value (large ones through
    the store, once, until they change), futures as dependencies, which arrive as their values. The variables that it
    assigns are futures at once, so the next %%remote cell can use them. The value of a last expression is the cell's
    result, unless that is print(...) or display(...).

    Functions and classes that it defines beside its statements, and names that it imports, are here, too, as they are
    in any cell: plain, not futures, not remote. A function that needs a variable of the cell needs it here as well:
    %fetch it before the call. One that is defined in a branch, or whose decorators, defaults or bases need what only
    the task has, is a future as other results are. Variables of loops (for i in ...) and of with ... as f stay in the
    task, unless something else in the cell assigns them or --returns names them.

    What the cell changes in place (results.append(x), df["a"] = 1) changes on the worker only; assign it to get it
    back, or name it in --returns. Workers run plain Python: no !commands and no %magics.

        %%remote --num-cpus 2
        model = train(data)
        model.score(test)
""",
)

ACTOR = Magic(
    "%%actor",
    "Start an actor of the class that the cell defines, and bind its handle to a variable.",
    (
        Flag("variable", "The variable for the handle: its methods are called as variable.method.remote(...)."),
        Flag(
            "--args",
            'Arguments of the constructor, as in a call: "10, step=2". Variables of the notebook may be used.',
            "LIST",
        ),
        *_flags(
            flags.OF_TASKS,
            "num_cpus",
            "num_gpus",
            "memory",
            "resources",
            "name",
            "max_restarts",
            "max_task_retries",
            "max_concurrency",
            "max_pending_calls",
            "priority",
            "lifetime",
        ),
        Flag("--detached", "Short for --lifetime detached.", means=("lifetime", "detached")),
        *_flags(flags.OF_TASKS, "scheduling_strategy", "label_selector", "runtime_env", "keep_frames"),
    ),
    """
    The cell is run here as any cell is; the last class that it defines becomes an actor class under its own name. What
    else it defines stays plain, for the class to use. Running the cell again starts a new actor; the old one ends when
    nothing refers to it any more, or at once if it has been given a --name.

        %%actor counter --args "10"
        class Counter:
            def __init__(self, start):
                self.n = start
            def add(self, k):
                self.n += k
                return self.n

    Look inside with a cell of its own: %%remote --on counter.
""",
)

FETCH = Magic(
    "%fetch",
    "Replace futures with their values: %fetch a b waits for a and b and binds their values.",
    (
        Flag(
            "names",
            "Variables that hold futures, or lists, tuples or dicts with futures, in each other too.",
            many=True,
            holds=FUTURES_HELD,
        ),
        Flag("--timeout", "Give up after that many seconds.", "SECONDS", amount),
    ),
)

# What `%mesh start` hands to init().
OF_START = (
    "num_cpus",
    "num_gpus",
    "memory",
    "resources",
    "object_store_memory",
    "namespace",
    "log_dir",
    "offload_dir",
    "offload_limit",
)
# And `%mesh connect`, beside the address.
OF_CONNECT = ("engine_options",)

MESH = Magic(
    "%mesh",
    "Start, look at, or stop the session.",
    (
        Flag("action", "start, status (the default), stop, or connect.", parse=str),
        Flag("address", "connect: the address of a session or an engine, or auto.", parse=str),
        *_flags(flags.OF_SESSIONS, *OF_START, *OF_CONNECT),
    ),
)

FUTURES = Magic(
    "%futures",
    "List the futures among the notebook's variables, with their state.",
    (Flag("states", f"Only futures in these states: {', '.join(TASKS)}.", parse=state, many=True),),
)

INSPECT = Magic(
    "%inspect",
    "Show all about a future or an actor: its card, where it is now, what it came from.",
    (
        Flag(
            "variable",
            "Holds the future, the futures by rank, or the actor's handle; or a part: refs[3]. With --pdb also a rank, "
            "or an error; without one the last error that was shown.",
            holds=FUTURES_HELD | ACTORS,
        ),
        Flag("--pdb", "Of a task that has failed: pdb over its frames, in the worker that has kept them."),
    ),
    """
    For a task that runs, and for an actor: the Python stack of its process at this moment, in the lines of your cells,
    if it is on this machine.
    Nothing is fetched.

    --pdb is for tasks of cells with %%remote --keep-frames or %%ranks --keep-frames, of functions and actors with
    the option keep_frames=True, and for all that fail after %config CellmeshMagics.keep_frames = True (of actors,
    for those that start then); %retry runs an earlier failure again. A worker keeps its last three failures and
    goes on with other tasks. p, pp, w, u, d, l and statements work as in %debug, q ends it. Where nothing can be
    typed (nbconvert, papermill), or when the worker has gone, the variables are shown as they were, as text.
""",
    split=code_words,
)

GRAPH = Magic(
    "%graph",
    "Show the live graph of tasks, objects and actors; in a terminal as a tree of lines.",
    (
        Flag(
            "--save",
            "Save the session as it is now in place of showing it: run.cellmesh, which JupyterLab opens without a "
            "kernel, or run.html, a page for any browser.",
            "FILE",
        ),
    ),
    """
    Saved is what happened when, names, what tasks have printed, and the tracebacks of those that failed; no values.

    The output of the cell also has a picture, which is drawn again when the tasks are done. It is what nbconvert,
    papermill and GitHub show.
""",
)

CANCEL = Magic(
    "%cancel",
    "Cancel the tasks of the last cell that has any, or those that are named.",
    (
        Flag(
            "what",
            "Numbers of cells (%cancel 3), or variables that hold futures, or lists, tuples, dicts or sets of them "
            "(%cancel a b), or parts of those (%cancel refs[3]).",
            many=True,
            holds=FUTURES_HELD,
        ),
        Flag("--all", "All tasks of the session."),
        Flag("--force", "Kill the processes of tasks that run, in place of interrupting them."),
    ),
    """
    The stop button ends the cell and leaves its tasks alone. To have it cancel them as well:
    %config CellmeshMagics.cancel_on_stop = True
""",
    split=code_words,
)

RETRY = Magic(
    "%retry",
    "Submit tasks that have failed or were cancelled again, with the inputs they had.",
    (
        Flag(
            "names",
            "Variables that hold futures, or lists, tuples, dicts or sets of them; or parts of those: refs[3].",
            many=True,
            holds=FUTURES_HELD,
        ),
        Flag("--all", "All variables of the notebook."),
    ),
    """
    The variables hold the new futures afterwards; of a list those that had failed are replaced. What has failed of that
    which a task needs is submitted again before it, and what has failed because of it after it. A function that has
    been redefined since runs as it is now. The result is the new future, if there is one: again = %retry a.

    Inputs are kept of what the notebook itself submits, except generators and calls of actors: of each function the
    first 1,000 calls of a cell, if they are at most 64 kB each beside values that were put into the store.
""",
    split=code_words,
)

TUNE_CELL = Magic(
    "%%tune",
    "Search: the cell is run many times, as trials, with parameters from the line as variables.",
    (
        Flag(
            "parameters",
            "name=values: a domain such as lr=loguniform(1e-4,1e-1), a list for all of its values "
            "(depth=[1,2,3]), or one value.",
            many=True,
        ),
        Flag("--metric", "What is looked for, of that which the trials report.", "NAME"),
        Flag("--max", "The metric is to be large (the default).", means=("mode", "max")),
        Flag("--min", "The metric is to be small.", means=("mode", "min")),
        Flag("--samples", "How often parameters are drawn, for each combination of the lists (1).", "N", flags.whole),
        Flag(
            "--scheduler",
            "Ends bad trials early: asha, hyperband, median, pbt; with options: asha:max_t=27,reduction_factor=3.",
            "NAME",
            scheduler,
        ),
        Flag(
            "--search",
            "Who proposes parameters: random (the default), or a sampler of Optuna such as tpe.",
            "NAME",
            search,
        ),
        Flag("--name", "What the experiment is called; `%tune NAME` finds it again.", "NAME"),
        Flag("--resume", "Go on with the experiment of that name, if there is one."),
        Flag("--replace", "Delete the experiment of that name, if there is one and it is over."),
        Flag("--concurrent", "Trials that run at a time, at most.", "N", flags.whole),
        Flag("--num-cpus", "CPUs that a trial takes (1).", "N", amount, short="--cpus"),
        Flag("--num-gpus", "GPUs that a trial takes.", "N", amount, short="--gpus"),
        Flag("--time-budget", "End after that many seconds.", "SECONDS", amount),
        Flag("--max-failures", "How often a trial that fails is begun again; -1 for no limit.", "N", flags.whole),
        Flag("--seed", "Of everything that is drawn.", "N", flags.whole),
        Flag(
            "--stop", "When a trial has done enough: accuracy>=0.9, or a number of iterations, or both.", "WHEN", stop
        ),
        Flag("--wait", "Return when the search is over; the stop button ends it then."),
        Flag("--output", "The variable for the search (search).", "VARIABLE", variable, short="-o"),
    ),
    """
    In the cell the parameters are variables, and report(accuracy=...) tells how good the trial is so far. Where it is
    not to go on, report ends the trial. report(..., checkpoint=value) keeps what the trial can go on from, and
    get_checkpoint() gives that back. A cell that reports nothing is taken by its last expression: a dict of metrics, or
    a number, which is the metric. What else the cell reads is sent along, as with %%remote.

        %%tune --metric accuracy --max --samples 40 --scheduler asha lr=loguniform(1e-4,1e-1) depth=[1,2,3]
        model = MLP(lr, depth)
        for epoch in range(27):
            report(accuracy=model.epoch())

    The search goes on while other cells run, also when they are stopped, and when the kernel is restarted. The card
    below the cell follows it; so does search, in any cell: search.best.config, search.to_pandas(), search.stop().
""",
    split=tune_words,
)

TUNE = Magic(
    "%tune",
    "List experiments, show one, or stop, pause and resume one or one of its trials.",
    (
        Flag(
            "words",
            "Nothing: the list. A name (or a variable): its card. stop, pause or resume, a name, and the number of a "
            "trial if it is about that one.",
            many=True,
        ),
    ),
)

RANKS_CELL = Magic(
    "%%ranks",
    "Run the cell in every rank that %ranks has made, and wait for them.",
    (
        Flag("ranks", "In these only: 0,2 or 0-3."),
        Flag("--only", "Show the output of these ranks; the cell runs in all.", "RANKS"),
        Flag("--all", "Show the output of each rank by itself, also where it is the same."),
        Flag(
            "--returns",
            "Exactly these variables come back, in place of all that the cell assigns; empty ('') for none.",
            "NAMES",
            names,
        ),
        *_flags(flags.OF_TASKS, "keep_frames"),
    ),
    """
    Each rank has a namespace of its own, which lives on between cells: variables, functions and imports of one cell are
    there in the next. From the start it has rank, world_size, local_rank, device ("cuda" or "cpu") and barrier(), at
    which ranks wait for each other, and torchrun's variables are set. What the cell reads of the notebook goes along,
    as with %%remote. What it assigns is in the notebook as refs by rank: cellmesh.get(loss) is a list, loss[0] the ref
    of rank 0, which tasks take as an argument. Assigned in the notebook again, a name is sent with the next cell that
    reads it.

        %ranks 4
        %%ranks
        model = DDP(Net())
        loss = train_epoch(model, data)
        loss

    Under the cell ranks that print the same are folded; displays, plots and the value of a last expression, too. When
    a rank fails, those that wait for it at barrier() are interrupted, and all variables stay: the mended cell can be
    run again. The stop button interrupts all ranks. With --keep-frames %inspect --pdb goes through the frames of the
    rank that has failed, and %inspect --pdb 1 of rank 1.
""",
)

RANKS = Magic(
    "%ranks",
    "Make the processes in which the cells of %%ranks run; show, restart or stop them.",
    (
        Flag(
            "words",
            "A number: so many ranks are made. status (the default); auto: plain cells run in every rank; here: in the "
            "notebook again; restart for those that are dead, or restart 1,3; stop.",
            many=True,
        ),
        *_flags(flags.OF_TASKS, "num_cpus", "num_gpus", "memory", "resources"),
        Flag(
            "--env",
            "Environment variables of all ranks: OMP_NUM_THREADS=1,NCCL_DEBUG=INFO.",
            "NAME=VALUE",
            environment,
        ),
        Flag(
            "--nodes",
            "On so many machines, equally many ranks on each, in the order of the ranks; each then holds a CPU unless "
            "something else is said.",
            "N",
            flags.whole,
        ),
        Flag(
            "--backend",
            "torch's process group is begun in all ranks: shared (over memory, on one machine), gloo or nccl.",
            "NAME",
            backend,
        ),
    ),
    """
    What is held (--num-cpus, --num-gpus, ...) is for each rank, and reserved for all of them or for none. Without any,
    ranks hold nothing, and there may be more of them than CPUs. They end with the session. A rank that is restarted
    begins without variables.

        %ranks 2 --backend shared

    After %ranks auto a cell of Python runs as if %%ranks stood above it, and the strip under it says so. Cells that
    begin with a %%magic, and those of magics and !commands alone, run in the notebook as ever.

    dist.all_reduce and the like, DDP and FSDP work at once: where nothing else is said over "shared", from the first
    cell that imports torch. Then a rank that fails ends the waiting of others in a collective, it is seen who waits for
    whom in which one, and the group goes on in the next cell. With --backend shared ranks have torch from their birth.
""",
)

ALL = (REMOTE, ACTOR, TUNE_CELL, RANKS_CELL, FETCH, MESH, FUTURES, INSPECT, GRAPH, CANCEL, RETRY, TUNE, RANKS)
