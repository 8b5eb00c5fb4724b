"""`tune.run`, and what its analysis tells."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def curve(config):
    for step in range(5):
        tune.report({"loss": abs(step - config["turn"]) + config["offset"], "step": step})


analysis = tune.run(
    curve,
    name="curves",
    config={"turn": tune.grid_search([1, 4]), "offset": tune.grid_search([0, 10])},
    metric="loss",
    mode="min",
    storage_path=os.path.abspath("store"),
    verbose=0,
)
print(analysis.best_config, analysis.best_result["loss"], analysis.best_trial.status)
print(analysis.get_best_config("loss", "max"), analysis.get_best_trial("loss", "max").last_result["loss"])
for scope in ("last", "all", "avg", "last-5-avg", "last-10-avg"):
    print(scope, analysis.get_best_trial("loss", "min", scope).config, analysis.get_best_config("loss", "max", scope))
print(len(analysis.trials), sorted(analysis.results_df["loss"].tolist()))
print(sorted(analysis.dataframe(metric="loss", mode="min")["loss"].tolist()))
print(sorted(analysis.dataframe()["config/turn"].tolist()), "logdir" in analysis.dataframe().columns)
print(analysis.best_dataframe["loss"].tolist(), len(analysis.trial_dataframes))
print(sorted(analysis.get_all_configs(prefix=True)[analysis.trials[0].trial_id].items()))
print(analysis.trials[0].evaluated_params, analysis.trials[0].experiment_tag, analysis.trials[0].is_finished())
print(os.path.basename(analysis.experiment_path), analysis.get_best_trial("nothing", "min"))
print(analysis.get_last_checkpoint(analysis.best_trial))
for call in (
    lambda: analysis.get_best_trial("loss", "least"),
    lambda: analysis.get_best_trial("loss", "min", scope="first"),
    lambda: analysis.dataframe(metric="loss"),
):
    try:
        call()
    except Exception as error:
        print(type(error).__name__)
again = tune.ExperimentAnalysis(analysis.experiment_path, default_metric="loss", default_mode="max")
print(again.best_config, len(again.trials))
try:
    tune.run(curve, colour="red")
except TypeError as error:
    print("TypeError", "colour" in str(error))
