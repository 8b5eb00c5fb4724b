"""Named actors, namespaces, get-or-create, detached ones, handles passed around."""

import ray

ray.init(num_cpus=2, namespace="here")


@ray.remote
class Registry:
    def __init__(self):
        self.values = {}

    def set(self, key, value):
        self.values[key] = value

    def get(self, key):
        return self.values.get(key)


registry = Registry.options(name="registry", lifetime="detached").remote()


@ray.remote
def write(handle, key):
    ray.get(handle.set.remote(key, key * 2))
    ray.get(ray.get_actor("registry").set.remote("found", True))


ray.get([write.remote(registry, i) for i in range(4)])
assert ray.get([registry.get.remote(i) for i in range(4)]) == [0, 2, 4, 6] and ray.get(registry.get.remote("found"))
assert ray.get_actor("registry", namespace="here") == registry
assert Registry.options(name="registry", get_if_exists=True).remote() == registry
assert ray.util.list_named_actors() == ["registry"]
assert ray.util.list_named_actors(all_namespaces=True) == [{"name": "registry", "namespace": "here"}]
for wrong in (
    lambda: Registry.options(name="registry").remote(),
    lambda: ray.get_actor("nobody"),
    lambda: ray.get_actor("registry", namespace="there"),
):
    try:
        wrong()
    except ValueError:
        pass
    else:
        raise AssertionError
ray.kill(registry)
