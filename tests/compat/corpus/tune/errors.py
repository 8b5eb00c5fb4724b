"""Trials that fail: in a grid of results, at the end of `run`, and at once."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
store = os.path.abspath("store")


def work(config):
    tune.report({"half": config["x"] / 2})
    if config["x"] == 2:
        raise ValueError("two is too much")
    tune.report({"half": config["x"] / 2})


results = tune.Tuner(
    work,
    param_space={"x": tune.grid_search([1, 2, 3])},
    tune_config=tune.TuneConfig(metric="half", mode="max"),
    run_config=tune.RunConfig(storage_path=store, verbose=0),
).fit()
print(results.num_errors, results.num_terminated, len(results))
for result in results:
    print(result.config, result.metrics["training_iteration"], type(result.error).__name__)
[error] = results.errors
print(isinstance(error, ValueError), "two is too much" in str(error))
print(results.get_best_result().config)
try:
    tune.run(work, config={"x": tune.grid_search([1, 2])}, storage_path=store, verbose=0)
except tune.TuneError as error:
    print("TuneError", error.args[0], [trial.config for trial in error.args[1]])
analysis = tune.run(
    work, config={"x": tune.grid_search([1, 2])}, storage_path=store, verbose=0, raise_on_failed_trial=False
)
print([(trial.config["x"], trial.status) for trial in analysis.trials])
results = tune.Tuner(
    work,
    param_space={"x": tune.grid_search([2, 1, 1, 1])},
    tune_config=tune.TuneConfig(max_concurrent_trials=1),
    run_config=tune.RunConfig(storage_path=store, failure_config=tune.FailureConfig(fail_fast=True), verbose=0),
).fit()
print("fail_fast", results.num_errors, results.num_errors + results.num_terminated < 4 or len(results) < 4)
for make in (
    lambda: tune.FailureConfig(fail_fast=True, max_failures=2),
    lambda: tune.FailureConfig(fail_fast="now"),
    lambda: tune.Tuner(3),
    lambda: tune.TuneConfig(samples=3),
    lambda: tune.CheckpointConfig(num_to_keep=0),
):
    try:
        make()
        print("taken")
    except Exception as error:
        print(type(error).__name__)
