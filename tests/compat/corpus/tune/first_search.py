"""A grid of a function: what each point reports, and which is the best."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # whose tables differ in each run
import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def valley(config):
    height = (config["x"] - 3) ** 2 + config["y"]
    for step in range(4):
        tune.report({"height": height / (step + 1), "inner": {"step": step}})


results = tune.Tuner(
    valley,
    param_space={"x": tune.grid_search([1, 2, 3]), "y": tune.grid_search([0, 5])},
    tune_config=tune.TuneConfig(metric="height", mode="min"),
    run_config=tune.RunConfig(name="valley", storage_path=os.path.abspath("store"), verbose=0),
).fit()
print(len(results), results.num_errors, results.num_terminated, results.errors)
for result in sorted(results, key=lambda result: (result.config["x"], result.config["y"])):
    print(result.config, result.metrics["height"], result.metrics["inner"], result.metrics["training_iteration"])
best = results.get_best_result()
print("best", best.config, best.metrics["height"], best.error, best.checkpoint)
print("worst", results.get_best_result(metric="height", mode="max", scope="all").config)
print("nested", results.get_best_result(metric="inner/step", mode="max").metrics["inner"])
print(best.metrics_dataframe["height"].tolist(), best.metrics_dataframe["inner/step"].tolist())
frame = results.get_dataframe()
print(sorted(frame["height"].tolist()), "config/x" in frame.columns, "inner/step" in frame.columns)
print(sorted(results.get_dataframe(filter_metric="height", filter_mode="max")["height"].tolist()))
print(os.path.basename(results.experiment_path))
try:
    results.get_best_result(metric="depth")
except RuntimeError as error:
    print("RuntimeError", str(error)[:53])
