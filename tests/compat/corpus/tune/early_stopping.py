"""Schedulers that end trials early. One trial at a time, so that what is decided is the same each time."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, AsyncHyperBandScheduler

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


def learn(config):
    for step in range(1, 17):
        tune.report({"score": config["slope"] * step})


def search(scheduler):
    results = tune.Tuner(
        learn,
        param_space={"slope": tune.grid_search([4, 2, 5, 1, 3, 6])},
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=scheduler, max_concurrent_trials=1),
        run_config=tune.RunConfig(storage_path=os.path.abspath("store"), verbose=0),
    ).fit()
    print(type(scheduler).__name__.startswith("A"), results.get_best_result().config)
    print([(result.config["slope"], result.metrics["training_iteration"]) for result in results])


search(ASHAScheduler(max_t=16, grace_period=1, reduction_factor=2))
search(AsyncHyperBandScheduler(max_t=8, grace_period=2, reduction_factor=4))
print(ASHAScheduler is AsyncHyperBandScheduler)
print(type(tune.create_scheduler("async_hyperband", max_t=9)) is AsyncHyperBandScheduler)
