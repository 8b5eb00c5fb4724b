"""runtime_env: variables for the program, for one task, for one actor; what children inherit."""
import os

import ray

ray.init(num_cpus=2, runtime_env={"env_vars": {"STAGE": "test", "REGION": "north"}}, include_dashboard=False, log_to_driver=False)


@ray.remote
def read(*names):
    return [os.environ.get(name) for name in names]


@ray.remote
def parent():
    return ray.get(read.remote("STAGE", "REGION", "EXTRA"))


@ray.remote(runtime_env={"env_vars": {"STAGE": "actor"}})
class Reader:
    def read(self):
        return os.environ["STAGE"], os.environ.get("REGION")


print(ray.get(read.remote("STAGE", "REGION", "EXTRA")), "STAGE" in os.environ)
own = {"env_vars": {"STAGE": "own", "EXTRA": "1"}}
print(ray.get(read.options(runtime_env=own).remote("STAGE", "REGION", "EXTRA")))
print(ray.get(parent.options(runtime_env=own).remote()))
print(ray.get(Reader.remote().read.remote()))
print(ray.get(read.remote("STAGE", "EXTRA")), sorted(ray.get_runtime_context().runtime_env["env_vars"].items()))
for wrong in {"env_vars": ["A=1"]}, {"env_vars": {"A": 1}}, ["A=1"]:
    try:
        read.options(runtime_env=wrong).remote()
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("refused", wrong)
