"""A function that saves, fails, and goes on from what it has saved."""
import json
import os
import tempfile

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune import Checkpoint

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def count(config):
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            start = json.load(open(os.path.join(folder, "state.json")))["n"]
    for n in range(start + 1, 6):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "state.json"), "w") as file:
                json.dump({"n": n}, file)
            saved = Checkpoint.from_directory(folder)
            saved.set_metadata({"n": n, "kind": config["kind"]})
            tune.report({"n": n, "from": start, "score": -abs(n - 3)}, checkpoint=saved)
        if n == 3 and start == 0 and config["kind"] == "fragile":
            raise RuntimeError("a bad moment")


results = tune.Tuner(
    count,
    param_space={"kind": tune.grid_search(["fragile", "sound"])},
    run_config=tune.RunConfig(
        storage_path=os.path.abspath("store"),
        failure_config=tune.FailureConfig(max_failures=1),
        checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
        verbose=0,
    ),
).fit()
for result in sorted(results, key=lambda result: result.config["kind"]):
    print(result.config, result.metrics["n"], result.metrics["from"], result.error)
    print(result.checkpoint.get_metadata(), [metrics["n"] for _, metrics in result.best_checkpoints])
    copy = result.checkpoint.to_directory("copy-" + result.config["kind"])
    print(sorted(name for name in os.listdir(copy) if not name.startswith(".")))
    print(result.get_best_checkpoint("n", "min").get_metadata()["n"])
