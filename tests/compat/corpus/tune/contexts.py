"""What a trial knows about itself."""
import os

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
import ray
from ray import tune

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def who(config):
    context = tune.get_context()
    place = context.get_trial_dir()
    with open(os.path.join(place, "note.txt"), "w") as file:
        file.write("hello")
    tune.report(
        {
            "experiment": context.get_experiment_name(),
            "is_id": context.get_trial_id() in context.get_trial_name(),
            "cpus": context.get_trial_resources().required_resources["CPU"],
            "is_there": os.path.isdir(place),
        }
    )


[result] = tune.Tuner(
    tune.with_resources(who, {"cpu": 2}),
    run_config=tune.RunConfig(name="me", storage_path=os.path.abspath("store"), verbose=0),
).fit()
for name in ("experiment", "is_id", "cpus", "is_there"):
    print(name, result.metrics[name])
print(os.path.exists(os.path.join(result.path, "..")), os.path.isabs(result.path))
