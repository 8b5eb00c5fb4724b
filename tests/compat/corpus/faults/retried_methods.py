"""max_task_retries with retry_exceptions: a method that fails is called again on the same actor."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Unreliable:
    def __init__(self):
        self.calls = []

    @ray.method(max_task_retries=3, retry_exceptions=True)
    def any(self, times):
        self.calls.append("any")
        if len(self.calls) <= times:
            raise OSError(len(self.calls))
        return len(self.calls)

    def some(self, times):
        self.calls.append("some")
        if len(self.calls) <= times:
            raise ConnectionError(len(self.calls))
        return len(self.calls)

    def count(self):
        return len(self.calls)


print(ray.get(Unreliable.remote().any.remote(3)))
actor = Unreliable.remote()
try:
    ray.get(actor.any.remote(9))
except OSError as error:
    print(type(error.cause).__name__, ray.get(actor.count.remote()))
for options in {"retry_exceptions": [ConnectionError], "max_task_retries": 2}, {"retry_exceptions": [KeyError], "max_task_retries": 2}, {}:
    actor = Unreliable.remote()
    try:
        print(ray.get(actor.some.options(**options).remote(2)))
    except ConnectionError as error:
        print(error.cause, ray.get(actor.count.remote()))
