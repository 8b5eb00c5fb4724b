"""Callbacks, which are called in the driver."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune.logger import LoggerCallback

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


class Diary(tune.Callback):
    def __init__(self):
        self.lines = []

    def setup(self, **info):
        self.lines.append("setup")

    def on_trial_start(self, iteration, trials, trial, **info):
        self.lines.append(f"start {trial.config['x']}")

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.lines.append(f"{trial.config['x']}: {result['y']} in {result['training_iteration']}")

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.lines.append(f"end {trial.config['x']} {trial.last_result['y']}")

    def on_trial_error(self, iteration, trials, trial, **info):
        self.lines.append(f"error {trial.config['x']}")

    def on_experiment_end(self, trials, **info):
        self.lines.append(f"over {[trial.status for trial in trials]}")


class Log(LoggerCallback):
    def __init__(self):
        self.n, self.ends = 0, []

    def log_trial_result(self, iteration, trial, result):
        self.n += 1

    def log_trial_end(self, trial, failed=False):
        self.ends.append(failed)


def square(config):
    for i in range(2):
        tune.report({"y": config["x"] ** 2 + i})
    if config["x"] == 3:
        raise RuntimeError("three")


diary, log = Diary(), Log()
tune.Tuner(
    square,
    param_space={"x": tune.grid_search([2, 3])},
    tune_config=tune.TuneConfig(max_concurrent_trials=1),
    run_config=tune.RunConfig(storage_path=os.path.abspath("store"), callbacks=[diary, log], verbose=0),
).fit()
print(*diary.lines, sep="\n")
print(log.n, log.ends)


class Stops(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        raise KeyError("enough")


try:
    tune.Tuner(
        square,
        param_space={"x": 2},
        run_config=tune.RunConfig(storage_path=os.path.abspath("store"), callbacks=[Stops()], verbose=0),
    ).fit()
except Exception as error:
    print("raised", "enough" in str(error))
