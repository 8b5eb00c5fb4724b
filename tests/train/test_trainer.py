"""A training from the outside: what it returns, what becomes of failures, what it leaves behind. Without torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.flags import Flag
from support.waiting import wait_until

import cellmesh as cm
from cellmesh import train, tune
from cellmesh.train.shards import shard_of
from cellmesh.tune import journal

pytestmark = [
    pytest.mark.usefixtures("session"),
    pytest.mark.may_keep("threads", "of the session, which this module shares"),
]


def me() -> int:
    return train.get_context().get_world_rank()


def two(a: int, b: int) -> int:
    return a + b


def add(value: float) -> float:
    """The sum of a number of all ranks."""
    array = np.array([value])
    train.get_context().communicator.all_reduce(array)
    return float(array[0])


def save(value: Any) -> Any:
    return value if me() == 0 else None


def free_cpus() -> float:
    return cm.available_resources().get("CPU", 0.0)


def counts(config: dict[str, Any]) -> None:
    """Ten steps, from the last checkpoint on."""
    start = train.get_checkpoint()
    state = start.value if start else {"step": 0, "total": 0.0, "starts": 0}
    state["starts"] += 1
    while state["step"] < 10:
        state["step"] += 1
        state["total"] += add(1.0 + me())
        train.report(total=state["total"], starts=state["starts"], checkpoint=save(state))


def test_a_training_returns_what_was_reported_and_saved() -> None:
    result = train.Trainer(counts, num_workers=3, config={}, name="sums").fit()
    assert (result.metrics["total"], result.metrics["training_iteration"]) == (60.0, 10)
    assert result.checkpoint is not None
    assert result.checkpoint.value == {"step": 10, "total": 60.0, "starts": 1}
    assert tune.attach("sums")[0].curve("total")[1] == [6.0 * i for i in range(1, 11)]


def test_a_function_that_needs_a_configuration_has_an_empty_one() -> None:
    def loop(config: dict[str, Any]) -> None:
        train.report(given=repr(config))

    assert train.Trainer(loop).fit().metrics["given"] == "{}"


def test_ranks_have_the_variables_of_torchrun_and_leave_none() -> None:
    names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "MASTER_ADDR"]

    def look() -> None:
        c = train.get_context()
        seen = [os.environ[name] for name in names]
        assert seen == [str(me()), "2", str(me()), "2", "0", "1", "127.0.0.1"]
        assert 0 < int(os.environ["MASTER_PORT"]) < 65536
        assert [c.get_world_size(), c.get_local_rank(), c.get_local_world_size(), c.get_node_rank()] == [2, me(), 2, 0]
        assert c.get_experiment_name() == "look-1"
        train.report(pid=os.getpid())

    result = train.Trainer(look, num_workers=2).fit()

    @cm.remote
    def after() -> tuple[int, list[str]]:
        return os.getpid(), [name for name in os.environ if name in names]

    assert result.metrics["pid"] and all(not left for _, left in cm.get([after.remote() for _ in range(8)]))


def test_parts_of_datasets() -> None:
    whole = np.arange(7.0)
    columns = {"x": np.arange(6).reshape(6, 1), "y": np.arange(6) % 2}

    def look(config: dict[str, Any]) -> None:
        part, xy = train.get_dataset_shard("whole"), train.get_dataset_shard()
        assert part.flags.writeable  # each rank's own
        assert part.tolist() == [[0, 1, 2], [3, 4, 5]][me()]
        assert xy["x"].shape == (3, 1)
        train.report(first=int(xy["x"][0, 0]), all=add(part.sum()))
        with pytest.raises(KeyError, match=r"no such dataset; there is 'whole', 'train'"):
            train.get_dataset_shard("test")

    result = train.Trainer(look, num_workers=2, config={}, datasets={"whole": whole, "train": cm.put(columns)}).fit()
    assert (result.metrics["first"], result.metrics["all"]) == (0, 15.0)


def test_windows_on_sequences() -> None:
    class Squares:
        def __len__(self) -> int:
            return 10

        def __getitem__(self, i: int) -> int:
            return i * i

    window = shard_of(Squares(), 1, 3)
    assert (list(window), len(window), window[0], window[1:], window[-1]) == ([9, 16, 25], 3, 9, [16, 25], 25)
    assert shard_of([1, 2, 3, 4], 1, 2) == [3, 4]
    with pytest.raises(ValueError, match=r"have one length, and these have \{'a': 1, 'b': 2\}"):
        shard_of({"a": [1], "b": [1, 2]}, 0, 1)
    with pytest.raises(TypeError, match="set_iterator has not"):
        shard_of(iter({1}), 0, 1)


def test_a_training_begins_from_a_given_checkpoint(tmp_path: Any) -> None:
    first = train.Trainer(counts, num_workers=2, config={}).fit()
    again = train.Trainer(counts, num_workers=2, config={}, resume_from_checkpoint=first.checkpoint)

    def one_more(config: dict[str, Any]) -> None:
        start = train.get_checkpoint()
        assert start is not None
        train.report(step=start.value["step"] + 1)

    again.loop = one_more
    assert again.fit().metrics["step"] == 11


def test_what_is_begun_again_goes_on_from_its_own_checkpoint_not_from_the_given_one() -> None:
    first = train.Trainer(counts, num_workers=2, config={}).fit()

    def fails_once() -> None:
        start = train.get_checkpoint()
        assert start is not None
        train.report(step=start.value["step"] + 1, checkpoint=save({"step": start.value["step"] + 1}))
        if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            raise ValueError("once")

    trainer = train.Trainer(fails_once, num_workers=2, resume_from_checkpoint=first.checkpoint, max_failures=1)
    assert trainer.fit().metrics["step"] == 12


# ---- failures
def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Fatal:
    """Kills its process when it is unpickled there, once: a rank that dies before its function begins."""

    def __init__(self, once: Flag) -> None:
        self.once = once

    def __reduce__(self) -> Any:
        return _fatal, (self.once, os.getpid())


def _fatal(once: Flag, maker: int) -> Fatal:
    if os.getpid() != maker and not once.is_set():
        once.set()
        die()
    return Fatal(once)


PHASES = ["beginning", "collective", "report", "after the report", "end"]


def killed(once: Flag, phase: str) -> Callable[[dict[str, Any]], None]:
    """As `counts`; rank 1 is killed in the fourth step."""

    def at(where: str, step: int) -> None:
        if me() == 1 and where == phase and step == 4 and not once.is_set():
            once.set()
            die()

    def loop(config: dict[str, Any]) -> None:
        start = train.get_checkpoint()
        state = start.value if start else {"step": 0, "total": 0.0}
        at("beginning", 4)
        while state["step"] < 10:
            state["step"] += 1
            at("collective", state["step"])
            state["total"] += add(1.0 + me())
            at("report", state["step"])
            train.report(total=state["total"], checkpoint=save(state))
            at("after the report", state["step"])
        at("end", 4)

    return loop


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_rank_ends_the_group_which_goes_on_from_its_checkpoint(
    phase: str, flag: Callable[[str], Flag]
) -> None:
    with pytest.raises(train.TrainingFailedError, match=r"RankDiedError: rank 1 \(process \d+\) died.*SIGKILL") as told:
        train.Trainer(killed(flag("first"), phase), num_workers=3, config={}, name="dies").fit()
    assert told.value.rank == 1
    assert isinstance(told.value.__cause__, train.RankDiedError)
    assert isinstance(told.value.__cause__, cm.exceptions.GroupMemberDiedError)
    assert told.value.__cause__.pid > 0
    n_reported = {"beginning": 0, "collective": 3, "report": 3, "after the report": 4, "end": 10}[phase]
    assert told.value.result.metrics.get("training_iteration", 0) in (n_reported, n_reported + (phase == "report"))
    wait_until(lambda: free_cpus() == 4)

    result = train.Trainer(killed(flag("second"), phase), num_workers=3, config={}, max_failures=1).fit()
    assert (result.metrics["total"], result.metrics["training_iteration"]) == (60.0, 10)
    wait_until(lambda: free_cpus() == 4)


class Holder:
    """Has CPUs."""

    def ready(self) -> None:
        """Return when it has them."""


def held(n_cpus: int) -> Any:
    holder = cm.remote(num_cpus=n_cpus)(Holder).remote()
    cm.get(holder.ready.remote())
    return holder


def sizes(config: dict[str, Any]) -> None:
    """Report in which attempt there are how many ranks; some attempts fail."""
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    start = train.get_checkpoint()
    found = [*(start.value if start else []), train.get_context().get_world_size()]
    train.report(sizes=found, sum=add(1.0), checkpoint=save(found))
    if attempt < len(config["flags"]) and me() == 0:
        config["flags"][attempt].set()
        config["go"][attempt].wait()
        raise ValueError("once more")


def test_as_many_ranks_as_there_is_room_for_anew_in_each_attempt(flag: Callable[[str], Flag]) -> None:
    flags, go = ([flag(f"{name}{i}") for i in range(2)] for name in ("begun", "go"))
    trainer = train.Trainer(
        sizes, num_workers=(1, 6), config={"flags": flags, "go": go}, max_failures=2, name="elastic", verbose=0
    )
    with ThreadPoolExecutor(1) as pool:
        other = held(1)
        training = pool.submit(trainer.fit)
        flags[0].wait()
        del other
        wait_until(lambda: free_cpus() == 1)
        go[0].set()
        flags[1].wait()
        other = cm.remote(num_cpus=2)(Holder).remote()  # which has them between the two attempts
        go[1].set()
        metrics = training.result(timeout=60).metrics
    assert metrics["sizes"] == [3, 4, 2] and metrics["sum"] == 2.0
    del other
    wait_until(lambda: free_cpus() == 4)


def test_a_rank_that_dies_before_its_function_begins(flag: Callable[[str], Flag]) -> None:
    fatal = Fatal(flag("once"))
    result = train.Trainer(lambda: (fatal, train.report(ok=1)), num_workers=2, max_failures=1).fit()
    assert result.metrics["ok"] == 1


def test_a_rank_that_raises() -> None:
    def loop(config: dict[str, Any]) -> None:
        add(1.0)
        if me() == 1:
            raise ZeroDivisionError("by me")
        add(1.0)

    with pytest.raises(
        train.TrainingFailedError, match=r"(?s)RankFailedError: rank 1 raised ZeroDivisionError: by me.*in loop: raise"
    ) as told:
        train.Trainer(loop, num_workers=3, config={}).fit()
    assert isinstance(told.value.__cause__, train.RankFailedError)
    assert told.value.rank == 1


def test_ranks_that_disagree_end_in_an_error_and_do_not_hang() -> None:
    def one_batch_more() -> None:
        for _ in range(2 + (me() == 1)):
            add(1.0)

    with pytest.raises(train.TrainingFailedError, match=r"rank 0: the end of the function.*rank 1: all_reduce"):
        train.Trainer(one_batch_more, num_workers=2).fit()

    def reports_alone() -> None:
        if me() == 0:
            train.report(x=1)

    with pytest.raises(train.TrainingFailedError, match=r"rank 0: report.*rank 1: the end of the function"):
        train.Trainer(reports_alone, num_workers=2).fit()


def test_ranks_that_all_wait_for_each_other_end_in_an_error() -> None:
    def sends_what_nobody_receives() -> None:
        if me() == 0:
            train.get_context().communicator.send(np.zeros(3), 1)

    with pytest.raises(train.TrainingFailedError, match="all ranks wait for others, and none can go on: ") as told:
        train.Trainer(sends_what_nobody_receives, num_workers=2).fit()
    assert "rank 0 at message 0 from rank 0 to 1 of float64 (3,); rank 1 at the end of the function" in str(told.value)

    def one_leaves_a_part_out() -> None:
        comm = train.get_context().communicator
        part = comm.split([0, 1])
        if part is not None and me() == 0:
            part.barrier()

    with pytest.raises(train.TrainingFailedError, match="rank 0 at barrier of the ranks 0,1; rank 1 at the end of"):
        train.Trainer(one_leaves_a_part_out, num_workers=3).fit()

    def both_receive() -> None:
        train.get_context().communicator.recv(np.zeros(3), 1 - me())

    with pytest.raises(train.TrainingFailedError, match=r"rank 0 at message 0 from rank 1 to 0.*rank 1 at message"):
        train.Trainer(both_receive, num_workers=2).fit()


def test_folders_of_all_ranks_are_one_checkpoint() -> None:
    def shards() -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, f"shard-{me()}").write_text(str(me()))
            Path(folder, "common").write_text(str(me()))
            start = train.get_checkpoint()
            assert start is None
            train.report(x=1, checkpoint=train.Checkpoint.from_directory(folder) if me() != 1 else None)

    result = train.Trainer(shards, num_workers=4).fit()
    assert result.checkpoint is not None
    with result.checkpoint.as_directory() as folder:
        texts = {path.name: path.read_text() for path in Path(folder).iterdir()}
    assert texts == {"shard-0": "0", "shard-2": "2", "shard-3": "3", "common": "0"}


def test_values_of_all_ranks_are_that_of_rank_0() -> None:
    result = train.Trainer(lambda: train.report(x=1, checkpoint={"rank": me()}), num_workers=2).fit()
    assert result.checkpoint is not None
    assert result.checkpoint.value == {"rank": 0}


@pytest.mark.parametrize("of", ["folder and value", "value and nothing", "value and folder"])
def test_checkpoints_of_different_kinds_are_refused(of: str, tmp_path: Path) -> None:
    kinds = {"folder": str(tmp_path), "value": {"x": 1}, "nothing": None}
    other, first = (kinds[kind] for kind in of.split(" and "))

    with pytest.raises(train.TrainingFailedError, match="have reported checkpoints of different kinds"):
        train.Trainer(lambda: train.report(x=1, checkpoint=other if me() else first), num_workers=2).fit()


def test_ctrl_c_ends_the_training_and_keeps_what_was_reported(flag: Callable[[str], Flag]) -> None:
    left = [flag("0"), flag("1")]

    def loop() -> None:
        try:
            add(1.0)  # both are here before one reports
            train.report(x=1)
            while True:
                add(1.0)
        finally:
            left[me()].set()

    trainer = train.Trainer(loop, num_workers=2, name="long", verbose=0)

    def has_reported() -> bool:
        if "long" not in [one["name"] for one in tune.experiments()]:
            return False
        return any(result.metrics.get("x") == 1 for result in tune.attach("long"))

    def interrupt() -> None:
        wait_until(has_reported)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        trainer.fit()
    thread.join()
    for one in left:
        one.wait()
    assert tune.attach("long").wait()[0].metrics["x"] == 1
    wait_until(lambda: free_cpus() == 4)


def test_the_ranks_go_with_the_process_that_started_them(flag: Callable[[str], Flag]) -> None:
    def loop() -> None:
        flag(f"{me()}").set_by_me()
        add(1.0)
        if me():
            add(1.0)  # to which rank 0 does not come
        signal.pause()

    search = tune.Tuner(train.Trainer(loop, num_workers=2), {}).start()
    ranks = [int(flag(f"{rank}").wait()) for rank in range(2)]
    (trial,) = (one for one in cm.state.list_tasks() if one["state"] == "running" and one["name"] == search.name)
    os.kill(trial["pid"], signal.SIGKILL)
    search.wait()
    assert search[0].state == "ERROR"
    wait_until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in ranks))
    wait_until(lambda: free_cpus() == 4)


# ---- under a Tuner
def test_a_trainer_in_a_tuner() -> None:
    def loop(config: dict[str, Any]) -> None:
        for _ in range(3):
            train.report(score=add(config["x"]), both=config["fixed"])

    trainer = train.Trainer(loop, num_workers=2, config={"fixed": 7, "x": 0})
    search = tune.Tuner(trainer, {"x": tune.grid_search([1, 2, 3, 4, 5])}, metric="score", mode="max").fit()
    assert [result.metrics["score"] for result in search] == [2, 4, 6, 8, 10]
    assert search.best.metrics["both"] == 7
    ray = tune.Tuner(trainer, {"train_loop_config": {"x": tune.grid_search([1, 2])}}, metric="score").fit()
    assert [result.metrics["score"] for result in ray] == [2, 4]
    wait_until(lambda: free_cpus() == 4)


def test_a_scheduler_stops_all_ranks_of_a_trial() -> None:
    def loop(config: dict[str, Any]) -> None:
        for step in range(1, 100):
            add(step)
            train.report(score=config["x"] * step)

    search = tune.Tuner(
        train.Trainer(loop, num_workers=2, config={}), {"x": tune.grid_search([1, 2])}, stop={"training_iteration": 5}
    ).fit()
    assert [result.metrics["score"] for result in search] == [5, 10]
    assert {result.state for result in search} == {"TERMINATED"}


# ---- bad input
@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: train.Trainer(3), TypeError, "Trainer(3): the first argument is a function"),
        (lambda: train.Trainer(counts, num_workers=0), ValueError, "num_workers=0: a whole number of ranks, 1 or more"),
        (lambda: train.Trainer(counts, num_workers=(3, 2)), ValueError, "num_workers=(3, 2): a whole number of ranks"),
        (lambda: train.Trainer(counts, num_workers=(1, 2, 3)), ValueError, "or the least and the most of them, as (1,"),
        (lambda: train.Trainer(counts, num_workers=(2, 65)), ValueError, "at most 64; others take backend='gloo'"),
        (
            lambda: train.Trainer(counts, num_workers=(5, 9)).fit(),
            train.TrainError,
            "5 ranks with {'CPU': 1.0} each find",
        ),
        (lambda: train.Trainer(counts, num_workers=65), ValueError, "at most 64; others take backend='gloo'"),
        (lambda: train.Trainer(counts, resources={"cpu": -1}), ValueError, "resources={'cpu': -1}"),
        (lambda: train.Trainer(counts, resources={"cpu": 0}), ValueError, "{'cpu': 0}: a rank takes something"),
        (lambda: train.Trainer(counts, config={}, train_loop_config={}), TypeError, "two names of one thing"),
        (lambda: train.Trainer(counts, num_workers=5).fit(), train.TrainError, "5 ranks with {'CPU': 1.0} each find"),
        (
            lambda: train.Trainer(counts, resources={"gpu": 1}).fit(),
            train.TrainError,
            "1 ranks with {'GPU': 1.0, 'CPU': 1.0} each find no room on one machine",
        ),
        (lambda: train.Trainer(two).fit(), TypeError, "two is called with config= as its argument: missing a required"),
        (lambda: train.Trainer(me, config={}).fit(), TypeError, "me is called with config= as its argument: too many"),
        (lambda: train.report(x=1), RuntimeError, "this is not a rank"),
        (lambda: train.get_dataset_shard(), RuntimeError, "this is not a rank"),
    ],
)
def test_bad_input(make: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as told:
        make()
    assert words in str(told.value)


def test_a_loss_that_becomes_nan_is_reported_as_it_is_and_the_training_goes_on() -> None:
    def loop(config: dict[str, Any]) -> None:
        for loss in (1.0, float("nan"), 0.5):
            train.report(loss=loss)

    trainer = train.Trainer(loop, num_workers=2, config={}, name="nan")
    table = trainer.fit().metrics_dataframe
    assert [loss if loss == loss else "nan" for loss in table["loss"].tolist()] == [1.0, "nan", 0.5]


def test_a_nan_on_one_rank_alone_is_on_all_after_the_sum() -> None:
    def loop(config: dict[str, Any]) -> None:
        context = train.get_context()
        loss = np.array([np.nan if context.get_world_rank() else 1.0])
        context.communicator.all_reduce(loss)
        train.report(is_nan=bool(np.isnan(loss[0])))

    assert train.Trainer(loop, num_workers=2, config={}).fit().metrics["is_nan"]


def test_a_training_of_a_newer_version_is_not_gone_on_with(storage: Path) -> None:
    train.Trainer(counts, num_workers=2, config={}, name="newer").fit()
    path = storage / "newer" / journal.FILE
    first, rest = path.read_text().split("\n", 1)
    header = json.loads(first)
    path.write_text(json.dumps({**header, "version": header["version"] + 1}) + "\n" + rest)
    with pytest.raises(tune.JournalError, match="Update cellmesh here, or read it there"):
        train.Trainer(counts, num_workers=2, config={}, name="newer", if_exists="resume").fit()


def test_without_torch_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from cellmesh import train\n"
        "from cellmesh.compat.ray import train as of_ray\n"
        "train.Trainer(lambda: None)\n"
        "for use in (lambda: train.TorchTrainer, lambda: train.torch):\n"
        "    try: use()\n"
        "    except ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [
        f"cellmesh.train.{name} needs torch: pip install 'cellmesh[train]'" for name in ("TorchTrainer", "torch")
    ]
