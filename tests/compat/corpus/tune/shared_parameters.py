"""Large values that all trials share, and what each trial takes of the machine."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import numpy as np
import ray
from ray import tune

ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
table = np.arange(200_000)


def total(config, data=None, factor=1):
    tune.report({"total": int(data[: config["n"]].sum()) * factor})


class Total(tune.Trainable):
    def setup(self, config, data=None):
        self.data = data

    def step(self):
        return {"total": int(self.data[: self.config["n"]].sum()), "done": True}

    def save_checkpoint(self, folder):
        return {}

    def load_checkpoint(self, saved):
        pass


def run(trainable):
    results = tune.Tuner(
        trainable,
        param_space={"n": tune.grid_search([10, 100])},
        run_config=tune.RunConfig(storage_path=os.path.abspath("store"), verbose=0),
    ).fit()
    print([result.metrics["total"] for result in results], results.num_errors)


run(tune.with_parameters(total, data=table))
run(tune.with_parameters(total, data=table, factor=2))
run(tune.with_parameters(Total, data=table))
run(tune.with_resources(tune.with_parameters(total, data=table), {"cpu": 2}))
run(tune.with_resources(tune.with_parameters(Total, data=table), tune.PlacementGroupFactory([{"CPU": 2}])))
factory = tune.PlacementGroupFactory([{"CPU": 1, "GPU": 0}])
print(factory.bundles, factory.required_resources, factory.head_cpus, factory.strategy)
