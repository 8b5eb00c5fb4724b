"""What ends trials: bounds, functions, stoppers."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune.stopper import CombinedStopper, FunctionStopper, MaximumIterationStopper, TrialPlateauStopper

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


def train(config):
    for step in range(1, 13):
        tune.report({"gain": config["rate"] * step, "level": min(step, 5), "eval": {"step": step}})


def steps(stop, values=(1, 2, 3)):
    results = tune.Tuner(
        train,
        param_space={"rate": tune.grid_search(list(values))},
        tune_config=tune.TuneConfig(max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=os.path.abspath("store"), stop=stop, verbose=0),
    ).fit()
    return [result.metrics.get("training_iteration") for result in results]


class Enough(tune.Stopper):
    def __init__(self):
        self.is_found = False

    def __call__(self, trial_id, result):
        self.is_found = self.is_found or result["gain"] >= 10
        return result["training_iteration"] >= 8

    def stop_all(self):
        return self.is_found


print(steps({"gain": 10}))
print(steps({"gain": 10, "training_iteration": 4}))
print(steps(lambda trial_id, result: result["gain"] > 6))
print(steps(MaximumIterationStopper(max_iter=3)))
print(steps(TrialPlateauStopper("level", std=0.001, num_results=3, grace_period=3)))
print(steps(CombinedStopper(MaximumIterationStopper(9), FunctionStopper(lambda trial_id, result: result["gain"] >= 12))))
found = [n for n in steps(Enough(), (1, 2, 5)) if n]
print(found)
