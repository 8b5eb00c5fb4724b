"""Resources of the cluster, what tasks and actors hold of them, and fractions."""
import ray

ray.init(num_cpus=4, num_gpus=0, resources={"slot": 2}, include_dashboard=False, log_to_driver=False)


def shown(resources):
    return {name: amount for name, amount in sorted(resources.items()) if name in ("CPU", "GPU", "slot")}


print(shown(ray.cluster_resources()))
print([row["Alive"] for row in ray.nodes()], shown(ray.nodes()[0]["Resources"]))


@ray.remote(num_cpus=0.5, resources={"slot": 0.25})
def held():
    return {name: amount for name, amount in sorted(ray.get_runtime_context().get_assigned_resources().items())}


print(ray.get(held.remote()))


@ray.remote(num_cpus=3, resources={"slot": 2})
class Holder:
    def look(self):
        return shown(ray.available_resources())


holder = Holder.remote()
ray.get(holder.look.remote())


def settled(expected):
    while shown(ray.available_resources()) != expected:
        pass
    return expected


print("with the actor", settled({"CPU": 1.0}))
ray.kill(holder)
print("without", settled({"CPU": 4.0, "slot": 2.0}))
print(ray.get([held.remote() for _ in range(8)]) == [ray.get(held.remote())] * 8)
