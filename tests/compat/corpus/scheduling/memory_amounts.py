"""memory= as a resource: it limits how many run together, and nothing else."""
import ray

ray.init(num_cpus=4, _memory=1000 * 1024 * 1024, include_dashboard=False, log_to_driver=False)
print(ray.cluster_resources()["memory"] == 1000 * 1024 * 1024)


@ray.remote(num_cpus=0, memory=600 * 1024 * 1024)
class Large:
    def held(self):
        return ray.get_runtime_context().get_assigned_resources()


first = Large.remote()
print(ray.get(first.held.remote()))
second = Large.remote()
pending = second.held.remote()
print(ray.wait([pending], timeout=0.5)[0])
ray.kill(first)
print(ray.get(pending, timeout=30))
for wrong in -1, "1GB":
    try:
        Large.options(memory=wrong).remote()
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, wrong)
