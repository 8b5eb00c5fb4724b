"""An experiment of which a trial has failed goes on."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
repaired = os.path.abspath("repaired")


def task(config):
    if config["x"] == 2 and not os.path.exists(repaired):
        raise OSError("broken")
    tune.report({"y": config["x"] * 10})


store = os.path.abspath("store")
first = tune.Tuner(
    task,
    param_space={"x": tune.grid_search([1, 2, 3])},
    tune_config=tune.TuneConfig(metric="y", mode="max"),
    run_config=tune.RunConfig(name="fragile", storage_path=store, verbose=0),
).fit()
path = os.path.join(store, "fragile")
print(first.num_errors, tune.Tuner.can_restore(path), tune.Tuner.can_restore(os.path.join(store, "other")))
looked = tune.Tuner.restore(path, trainable=task).get_results()
print(len(looked), looked.num_errors, looked.get_best_result().config)
open(repaired, "w").close()
again = tune.Tuner.restore(path, trainable=task, restart_errored=True).fit()
print(again.num_errors, again.num_terminated, sorted(result.metrics["y"] for result in again))
print(again.get_best_result().config, len(again))
try:
    tune.Tuner.restore(os.path.join(store, "other"), trainable=task)
except FileNotFoundError:
    print("FileNotFoundError")
try:
    tune.Tuner(task).get_results()
except RuntimeError as error:
    print("RuntimeError", str(error)[:25])
