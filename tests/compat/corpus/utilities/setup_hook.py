"""worker_process_setup_hook: a function that each worker calls before its first task."""
import os

import ray


def prepare():
    os.environ["PREPARED"] = "yes"


ray.init(num_cpus=2, runtime_env={"worker_process_setup_hook": prepare}, include_dashboard=False, log_to_driver=False)


@ray.remote
def look():
    return os.environ.get("PREPARED")


@ray.remote
class Looker:
    def look(self):
        return os.environ.get("PREPARED")


print(ray.get(look.remote()), ray.get(Looker.remote().look.remote()), os.environ.get("PREPARED"))
