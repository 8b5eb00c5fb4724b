"""Loggers that are asked for: lines of JSON, and a table."""
import csv
import json
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, pretty_print

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


def fall(config):
    for i in range(3):
        tune.report({"height": config["start"] - i, "deep": {"i": i}})


results = tune.Tuner(
    fall,
    param_space={"start": tune.grid_search([5, 7])},
    run_config=tune.RunConfig(
        storage_path=os.path.abspath("store"), callbacks=[CSVLoggerCallback(), JsonLoggerCallback()], verbose=0
    ),
).fit()
for result in results:
    with open(os.path.join(result.path, "result.json")) as file:
        lines = [json.loads(line) for line in file]
    print([line["height"] for line in lines], [line["training_iteration"] for line in lines])
    with open(os.path.join(result.path, "progress.csv")) as file:
        rows = list(csv.DictReader(file))
    print([row["height"] for row in rows], [row["deep/i"] for row in rows])
    print(json.load(open(os.path.join(result.path, "params.json"))))
print(pretty_print({"loss": 0.5, "inner": {"b": 2, "a": 1}, "none": None}))
