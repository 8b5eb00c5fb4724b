"""Mistakes in a `runtime_env`: the type of each error."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def hello():
    return "hello"


def attempt(what, env):
    try:
        print(what, ray.get(hello.options(runtime_env=env).remote(), timeout=30))
    except Exception as error:
        print(what, [kind.__name__ for kind in (TypeError, ValueError) if isinstance(error, kind)][0])


attempt("none", {})
attempt("a list", ["pip"])
attempt("a string", "pip")
attempt("env_vars not a dict", {"env_vars": ["A=1"]})
attempt("env_vars of numbers", {"env_vars": {"A": 1}})
attempt("env_vars by number", {"env_vars": {1: "A"}})
attempt("working_dir of numbers", {"working_dir": 1})
attempt("pip of numbers", {"pip": 1})
attempt("py_modules a string", {"py_modules": "x"})
attempt("pip and conda", {"pip": ["a"], "conda": "b"})
attempt("fine", {"env_vars": {"A": "1"}})
