"""Trainables by name, several experiments at a time."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune import Experiment, grid_search, register_trainable, run_experiments

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
store = os.path.abspath("store")


def power(config):
    for i in range(6):
        tune.report({"value": i ** config["exponent"], "i": i})


register_trainable("power", power)
trials = run_experiments(
    {
        "small": {
            "run": "power",
            "stop": {"value": 9},
            "config": {"exponent": grid_search([1, 2])},
            "storage_path": store,
            "resources_per_trial": {"cpu": 1},
        },
        "large": {"run": "power", "config": {"exponent": 3}, "num_samples": 2, "storage_path": store},
    },
    verbose=0,
)
print(sorted((trial.config["exponent"], trial.last_result["i"], trial.status) for trial in trials))
[trial] = run_experiments(Experiment("alone", power, config={"exponent": 0}, storage_path=store), verbose=0)
print(trial.last_result["value"], trial.trainable_name)
print(tune.Tuner("power", param_space={"exponent": 2}, run_config=tune.RunConfig(storage_path=store, verbose=0)).fit()[0].metrics["value"])
try:
    tune.run("unknown", storage_path=store, verbose=0)
except tune.TuneError as error:
    print("TuneError", "unknown" in str(error).lower())
