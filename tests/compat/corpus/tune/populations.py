"""Population based training: the worst go on from the best, with other settings."""
import json
import os
import tempfile

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune import Checkpoint
from ray.tune.schedulers import PopulationBasedTraining

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)


def climb(config):
    height, step = 0.0, 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            height, step = json.load(open(os.path.join(folder, "at.json")))
    while step < 20:
        step += 1
        height += config["speed"]
        with tempfile.TemporaryDirectory() as folder:
            json.dump([height, step], open(os.path.join(folder, "at.json"), "w"))
            tune.report({"height": height, "step": step}, checkpoint=Checkpoint.from_directory(folder))


results = tune.Tuner(
    climb,
    param_space={"speed": tune.grid_search([0.0, 0.0, 1.0, 1.0])},
    tune_config=tune.TuneConfig(
        metric="height",
        mode="max",
        scheduler=PopulationBasedTraining(
            time_attr="training_iteration",
            perturbation_interval=4,
            hyperparam_mutations={"speed": [0.0, 1.0, 2.0]},
            quantile_fraction=0.5,
            synch=True,
        ),
    ),
    run_config=tune.RunConfig(storage_path=os.path.abspath("store"), verbose=0),
).fit()
print(len(results), results.num_errors, all(result.metrics["step"] == 20 for result in results))
print("all have climbed", all(result.metrics["height"] > 0 for result in results))
print(set(result.config["speed"] for result in results) <= {0.0, 1.0, 2.0})
