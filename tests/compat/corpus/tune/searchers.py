"""Searchers: Optuna's, one of our own, and those around others."""
import os
import warnings

os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
warnings.filterwarnings("ignore")
import ray
from ray import tune
from ray.tune.search import BasicVariantGenerator, ConcurrencyLimiter, Searcher
from ray.tune.search.optuna import OptunaSearch

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def bowl(config):
    tune.report({"loss": (config["x"] - 2) ** 2})


def search(algorithm, space=None, n=8):
    return tune.Tuner(
        bowl,
        param_space={"x": tune.uniform(-10, 10)} if space is None else space,
        tune_config=tune.TuneConfig(metric="loss", mode="min", search_alg=algorithm, num_samples=n),
        run_config=tune.RunConfig(storage_path=os.path.abspath("store"), verbose=0),
    ).fit()


class Halving(Searcher):
    """Goes to the middle of what is left."""

    def __init__(self):
        super().__init__(metric="loss", mode="min")
        self.low, self.high, self.ended = -6.0, 10.0, []

    def suggest(self, trial_id):
        if len(self.ended) == 5:
            return Searcher.FINISHED
        self.x = (self.low + self.high) / 2
        return {"x": self.x}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.ended.append(result["loss"])
        if self.x < 1.5:
            self.low = self.x
        else:
            self.high = self.x

    def save(self, checkpoint_path):
        pass

    def restore(self, checkpoint_path):
        pass


halving = ConcurrencyLimiter(Halving(), max_concurrent=1)
print([result.config["x"] for result in search(halving, space={}, n=20)])
found = search(OptunaSearch(seed=3), n=10)
print(len(found), all(-10 <= result.config["x"] <= 10 for result in found), found.num_errors)
found = search(OptunaSearch(points_to_evaluate=[{"x": 1.5}, {"x": 2.5}]), n=4)
print({1.5, 2.5} <= {result.config["x"] for result in found})
found = search(BasicVariantGenerator(points_to_evaluate=[{"x": 2.0}], max_concurrent=1), n=3)
print(len(found), found[0].config, found.get_best_result().metrics["loss"])
