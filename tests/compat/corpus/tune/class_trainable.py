"""A trial as a class: setup, steps, checkpoints, and a bound that ends it."""
import json
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


class Growth(tune.Trainable):
    def setup(self, config):
        self.size = config["start"]

    def step(self):
        self.size *= 2
        return {"size": self.size, "at": self.training_iteration}

    def save_checkpoint(self, folder):
        with open(os.path.join(folder, "size.json"), "w") as file:
            json.dump(self.size, file)

    def load_checkpoint(self, folder):
        with open(os.path.join(folder, "size.json")) as file:
            self.size = json.load(file)


results = tune.Tuner(
    Growth,
    param_space={"start": tune.grid_search([1, 3])},
    tune_config=tune.TuneConfig(metric="size", mode="max"),
    run_config=tune.RunConfig(
        stop={"training_iteration": 5},
        storage_path=os.path.abspath("store"),
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=True),
        verbose=0,
    ),
).fit()
for result in results:
    print(result.config, result.metrics["size"], result.metrics["at"], result.metrics["training_iteration"])
best = results.get_best_result()
with best.checkpoint.as_directory() as folder:
    print("latest", json.load(open(os.path.join(folder, "size.json"))))
print([metrics["training_iteration"] for _, metrics in best.best_checkpoints])


class Ends(tune.Trainable):
    def step(self):
        return {"n": self.iteration, "done": self.iteration == 2}


results = tune.Tuner(Ends, run_config=tune.RunConfig(storage_path=os.path.abspath("store"), verbose=0)).fit()
print(results[0].metrics["n"], results[0].metrics["done"], results[0].config)
