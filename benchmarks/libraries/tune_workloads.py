"""What `make bench-libraries` measures of Tune, written once for each peer. Run as a program it measures one row.

python benchmarks/libraries/tune_workloads.py cellmesh trial_overhead      prints JSON
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
import warnings

warnings.simplefilter("ignore")
N_CPUS = 2
EPOCHS, N_CONFIGURATIONS = 27, 64


# ---- what is tuned: a small network on scikit-learn's digits
def digits(config, report, epochs=EPOCHS):
    """Plain numpy, so that every peer trains the same: one hidden layer, minibatches. Reports the test accuracy."""
    import numpy as np
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    x, y = x[order] / 16.0, y[order]
    x_train, y_train, x_test, y_test = x[:1300], y[:1300], x[1300:], y[1300:]
    rng = np.random.default_rng(int(config["width"]))
    w1 = rng.normal(0, 0.2, (64, int(config["width"])))
    w2 = rng.normal(0, 0.2, (int(config["width"]), 10))
    onehot = np.eye(10)[y_train]
    for _ in range(epochs):
        for start in range(0, len(x_train), 32):
            xb, yb = x_train[start : start + 32], onehot[start : start + 32]
            h = np.maximum(xb @ w1, 0)
            z = h @ w2
            p = np.exp(z - z.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            g = (p - yb) / len(xb)
            dh = (g @ w2.T) * (h > 0)
            w2 -= config["lr"] * (h.T @ g + config["decay"] * w2)
            w1 -= config["lr"] * (xb.T @ dh + config["decay"] * w1)
        accuracy = float(((np.maximum(x_test @ w1, 0) @ w2).argmax(1) == y_test).mean())
        report(accuracy)


SPACE = {"lr": (1e-3, 10.0), "decay": (1e-6, 1e-1), "width": (8, 128)}


def seconds(call):
    began = time.perf_counter()
    value = call()
    return time.perf_counter() - began, value


def quantiles(samples):
    ordered = sorted(samples)
    return {"p50": statistics.median(ordered), "p90": ordered[int(len(ordered) * 0.9)]}


# ---- cellmesh
class Cellmesh:
    def __init__(self, num_cpus=N_CPUS):
        import cellmesh
        from cellmesh import tune

        self.cm, self.tune = cellmesh, tune
        os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
        cellmesh.init(num_cpus=num_cpus)
        self.version = cellmesh.__version__

    def fit(self, f, space, n, **options):
        return self.tune.Tuner(f, space, num_samples=n, metric="score", mode="max", verbose=0, **options).fit()

    def trial_overhead(self, n=1000):
        tune = self.tune

        def nothing(config):
            tune.report(score=config["x"])

        self.fit(nothing, {"x": tune.uniform(0, 1)}, 10)
        took, results = seconds(lambda: self.fit(nothing, {"x": tune.uniform(0, 1)}, n))
        files = sum(len(names) for _, _, names in os.walk(results.path))
        return {"ms": took / n * 1e3, "files": files}

    def tpe_overhead(self, n=200):
        tune = self.tune

        def nothing(config):
            tune.report(score=config["x"])

        for _ in range(3):  # until processes have Optuna from their birth; its peer has imported it by now
            self.fit(nothing, {"x": tune.uniform(0, 1)}, 10, search_alg="tpe")
        took, _ = seconds(lambda: self.fit(nothing, {"x": tune.uniform(0, 1)}, n, search_alg="tpe", seed=0))
        return {"ms": took / n * 1e3}

    def report_2(self, trials=2, n=2000):
        tune = self.tune

        def reports(config):
            import time

            took = []
            for i in range(n):
                began = time.perf_counter()
                tune.report(score=float(i))
                took.append(time.perf_counter() - began)
            took.sort()
            tune.report(score=0.0, p50=took[n // 2] * 1e6, p90=took[n * 9 // 10] * 1e6)

        results = self.fit(reports, {}, trials, max_concurrent=trials, resources={"cpu": 0})
        return {"us": statistics.median(r.metrics["p50"] for r in results)}

    def report_16(self):
        return self.report_2(16, 500)

    def asha_rule(self, n=10_000):
        import numpy as np

        scheduler = self.tune.ASHA(max_t=100, grace_period=1)
        scheduler.begin("score", "max", np.random.default_rng(0))
        scores = np.random.default_rng(0).uniform(size=n).tolist()
        for trial in range(n):
            scheduler.on_trial_add(trial, {})
        results = [{"score": score, "training_iteration": 1, "time_total_s": 1.0} for score in scores]
        took, _ = seconds(lambda: [scheduler.on_trial_result(trial, result) for trial, result in enumerate(results)])
        return {"us": took / n * 1e6}

    def digits(self, seed=0):
        tune = self.tune
        space = {
            "lr": tune.loguniform(*SPACE["lr"]),
            "decay": tune.loguniform(*SPACE["decay"]),
            "width": tune.lograndint(*SPACE["width"]),
        }

        def train(config):
            digits(config, lambda accuracy: tune.report(score=accuracy))

        took, results = seconds(
            lambda: self.fit(
                train, space, N_CONFIGURATIONS, scheduler=tune.ASHA(max_t=EPOCHS, reduction_factor=3), seed=seed
            )
        )
        return {"s": took, "accuracy": results.best.metrics["score"]}

    def stop(self):
        tune = self.tune

        def endless(config):
            import time

            while True:
                time.sleep(0.01)
                tune.report(score=1.0)

        search = tune.Tuner(endless, {}, metric="score", num_samples=2, verbose=0).start()
        while not all(len(r.metrics) for r in search) or len(search) < 2:
            time.sleep(0.01)

        def stop():
            search.stop()
            search.wait()

        return {"s": seconds(stop)[0]}

    def resume_10000(self):
        tune = self.tune

        def nothing(config):
            return {"score": config["x"]}

        n = 10_000
        results = self.fit(nothing, {"x": tune.uniform(0, 1)}, n, name="many")
        lines = open(results.path + "/journal.jsonl").read().splitlines(keepends=True)
        with open(
            results.path + "/journal.jsonl", "w"
        ) as file:  # as if its controller had died before the last trial's end
            file.writelines(lines[:-4])
        took, search = seconds(lambda: tune.resume("many"))
        search.wait()
        assert len(search) == n
        return {"s": took}


# ---- Ray Tune
class Ray:
    def __init__(self, num_cpus=N_CPUS):
        os.environ.update(RAY_TRAIN_V2_ENABLED="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="0", RAY_AIR_NEW_OUTPUT="0")
        import ray
        from ray import tune

        self.ray, self.tune = ray, tune
        with quiet():
            ray.init(num_cpus=num_cpus, include_dashboard=False, log_to_driver=False)
        self.version = ray.__version__

    def fit(self, f, space, n, resources=None, **options):
        tune = self.tune
        if resources is not None:
            f = tune.with_resources(f, resources)
        config = tune.TuneConfig(num_samples=n, metric="score", mode="max", **options)
        run = tune.RunConfig(storage_path=tempfile.mkdtemp(), verbose=0)
        with quiet():
            return tune.Tuner(f, param_space=space, tune_config=config, run_config=run).fit()

    def trial_overhead(self, n=200):
        tune = self.tune

        def nothing(config):
            tune.report({"score": config["x"]})

        self.fit(nothing, {"x": tune.uniform(0, 1)}, 4)
        took, results = seconds(lambda: self.fit(nothing, {"x": tune.uniform(0, 1)}, n))
        files = sum(len(names) for _, _, names in os.walk(results.experiment_path))
        return {"ms": took / n * 1e3, "files": files * 1000 // n}

    def report_2(self, trials=2, n=300):
        tune = self.tune

        def reports(config):
            import time

            took = []
            for i in range(n):
                began = time.perf_counter()
                tune.report({"score": float(i)})
                took.append(time.perf_counter() - began)
            took.sort()
            tune.report({"score": 0.0, "p50": took[n // 2] * 1e6})

        results = self.fit(reports, {}, trials, resources={"cpu": N_CPUS / trials / 2})
        return {"us": statistics.median(r.metrics["p50"] for r in results)}

    def report_16(self):
        return self.report_2(16, 100)

    def asha_rule(self, n=10_000):
        import numpy as np
        from ray.tune.experiment import Trial
        from ray.tune.schedulers.async_hyperband import _Bracket

        bracket = _Bracket(1, 100, 4, 0)
        scores = np.random.default_rng(0).uniform(size=n).tolist()
        trials = [type("T", (), {"trial_id": str(i)})() for i in range(n)]
        del Trial
        took, _ = seconds(
            lambda: [bracket.on_result(trial, 1, score) for trial, score in zip(trials, scores, strict=True)]
        )
        return {"us": took / n * 1e6}

    def digits(self, seed=0):
        from ray.tune.schedulers import ASHAScheduler

        tune = self.tune
        space = {
            "lr": tune.loguniform(*SPACE["lr"]),
            "decay": tune.loguniform(*SPACE["decay"]),
            "width": tune.lograndint(*SPACE["width"]),
        }
        import random

        import numpy as np

        random.seed(seed)
        np.random.seed(seed)
        code = digits

        def train(config):
            code(config, lambda accuracy: tune.report({"score": accuracy}))

        scheduler = ASHAScheduler(max_t=EPOCHS, reduction_factor=3)
        took, results = seconds(lambda: self.fit(train, space, N_CONFIGURATIONS, scheduler=scheduler))
        return {"s": took, "accuracy": results.get_best_result().metrics["score"]}


# ---- Optuna with loky's processes
def _loky_digits(storage, number, seed, params):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.load_study(study_name="digits", storage=_journal(storage), pruner=_halving())
    trial = optuna.trial.Trial(study, number)

    class Pruned(Exception):
        pass

    last, step = 0.0, 0

    def report(accuracy):
        nonlocal last, step
        step += 1
        last = accuracy
        trial.report(accuracy, step)
        if trial.should_prune():
            raise Pruned

    with contextlib.suppress(Pruned):
        digits(params, report)
        return number, last, False
    return number, last, True


def _journal(path):
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(path))


def _halving():
    import optuna

    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)


def _nothing(x):
    return x


class OptunaLoky:
    def __init__(self, num_cpus=N_CPUS):
        import optuna
        from loky import get_reusable_executor

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.optuna, self.pool = optuna, get_reusable_executor(max_workers=num_cpus)
        list(self.pool.map(_nothing, range(num_cpus)))
        self.version = optuna.__version__

    def _ask_and_tell(self, n, sampler, storage=None):
        from concurrent.futures import FIRST_COMPLETED, wait

        study = self.optuna.create_study(sampler=sampler, direction="maximize", storage=storage)
        left, running = n, {}
        while left or running:
            while left and len(running) < N_CPUS:
                trial = study.ask()
                running[self.pool.submit(_nothing, trial.suggest_float("x", 0, 1))] = trial
                left -= 1
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                study.tell(running.pop(future), future.result())

    def trial_overhead(self, n=1000):
        path = os.path.join(tempfile.mkdtemp(), "journal")
        took, _ = seconds(lambda: self._ask_and_tell(n, self.optuna.samplers.RandomSampler(), _journal(path)))
        return {"ms": took / n * 1e3, "files": 1}

    def tpe_overhead(self, n=200):
        took, _ = seconds(lambda: self._ask_and_tell(n, self.optuna.samplers.TPESampler(seed=0)))
        return {"ms": took / n * 1e3}

    def digits(self, seed=0):
        from concurrent.futures import FIRST_COMPLETED, wait

        path = os.path.join(tempfile.mkdtemp(), "journal")

        def run():
            study = self.optuna.create_study(
                study_name="digits",
                storage=_journal(path),
                sampler=self.optuna.samplers.RandomSampler(seed=seed),
                pruner=_halving(),
                direction="maximize",
            )
            left, running = N_CONFIGURATIONS, {}
            best = 0.0
            while left or running:
                while left and len(running) < N_CPUS:
                    trial = study.ask()
                    params = {
                        "lr": trial.suggest_float("lr", *SPACE["lr"], log=True),
                        "decay": trial.suggest_float("decay", *SPACE["decay"], log=True),
                        "width": trial.suggest_int("width", *SPACE["width"], log=True),
                    }
                    running[self.pool.submit(_loky_digits, path, trial._trial_id, seed, params)] = trial
                    left -= 1
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    _, value, pruned = future.result()
                    state = self.optuna.trial.TrialState.PRUNED if pruned else self.optuna.trial.TrialState.COMPLETE
                    study.tell(running.pop(future), None if pruned else value, state=state)
                    best = max(best, value)
            return best

        took, best = seconds(run)
        return {"s": took, "accuracy": best}


@contextlib.contextmanager
def quiet():
    """Without what others print: stdout is for the figures."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def first_result(api):
    """From before the imports to the first result of a trial."""
    began = time.perf_counter()
    peer = PEERS[api](N_CPUS)
    tune = peer.tune
    score = (lambda: tune.report(score=1.0)) if api == "cellmesh" else (lambda: tune.report({"score": 1.0}))

    def one(config):
        score()

    peer.fit(one, {}, 1)
    return {"s": time.perf_counter() - began}, peer


PEERS = {"cellmesh": Cellmesh, "ray": Ray, "optuna_loky": OptunaLoky}

if __name__ == "__main__":
    api, row, *seed = sys.argv[1:]
    if row == "first_result":
        figures, peer = first_result(api)
    else:
        peer = PEERS[api](16 if row == "report_16" and api == "cellmesh" else N_CPUS)
        measure = getattr(peer, row, None)
        figures = measure(*map(int, seed)) if measure is not None else None
    print(json.dumps({"version": peer.version, "figures": figures}))
