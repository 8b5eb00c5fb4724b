"""An actor that writes checkpoints itself, and goes on from there after a restart."""
import json
import os
import tempfile

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(max_restarts=-1, max_task_retries=-1)
class Saved:
    def __init__(self, path):
        self.path = path
        self.state = json.load(open(path)) if os.path.exists(path) else {}

    def add(self, key, value, request):
        if self.state.get("last") != request:
            self.state[key] = self.state.get(key, 0) + value
            self.state["last"] = request
            with open(self.path + ".new", "w") as file:
                json.dump(self.state, file)
            os.replace(self.path + ".new", self.path)
            if request == 3:
                os._exit(1)
        return self.state[key]


saved = Saved.remote(os.path.join(tempfile.mkdtemp(), "state.json"))
print([ray.get(saved.add.remote("a", i, i)) for i in range(6)])


@ray.remote
class Worker:
    def work(self, x):
        if x == 2:
            os._exit(1)
        return 10 * x


class Supervisor:
    def __init__(self):
        self.worker = Worker.remote()

    def work(self, x):
        try:
            return ray.get(self.worker.work.remote(x))
        except ray.exceptions.RayActorError:
            self.worker = Worker.remote()
            return "replaced"


supervisor = Supervisor()
print([supervisor.work(i) for i in range(5)])
