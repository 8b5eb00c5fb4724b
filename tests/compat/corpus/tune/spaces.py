"""Where configurations come from: constants, draws, grids, functions of the rest, in nested dicts."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def look(config):
    return {"seen": 1}


space = {
    "constant": 7,
    "grid": tune.grid_search(["a", "b"]),
    "model": {"width": tune.choice([8, 16]), "rate": tune.loguniform(1e-4, 1e-1), "layers": tune.grid_search([1, 2])},
    "double": tune.sample_from(lambda spec: spec.config.model.width * 2),
    "whole": tune.randint(0, 10),
    "steps": tune.quniform(0, 1, 0.25),
    "even": tune.qrandint(2, 8, 2),
    "normal": tune.randn(10, 0.1),
}
results = tune.Tuner(
    look,
    param_space=space,
    tune_config=tune.TuneConfig(num_samples=3),
    run_config=tune.RunConfig(storage_path=os.path.abspath("store"), verbose=0),
).fit()
configs = [result.config for result in results]
print(len(configs), sorted({(config["grid"], config["model"]["layers"]) for config in configs}))
print(all(config["double"] == 2 * config["model"]["width"] for config in configs))
print({config["constant"] for config in configs}, {type(config["whole"]).__name__ for config in configs})
print(all(1e-4 <= config["model"]["rate"] <= 1e-1 for config in configs))
print(all(0 <= config["whole"] < 10 and config["even"] in (2, 4, 6, 8) for config in configs))
print({config["steps"] * 4 % 1 for config in configs}, all(9 < config["normal"] < 11 for config in configs))
