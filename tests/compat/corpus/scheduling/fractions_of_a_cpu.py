"""num_cpus=0 and fractions: many light actors on two CPUs."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Light:
    def __init__(self, i):
        self.i = i

    def get(self):
        return self.i


@ray.remote(num_cpus=0.25)
class Quarter(object):
    def held(self):
        return ray.get_runtime_context().get_assigned_resources()


@ray.remote
class Default:
    def held(self):
        return ray.get_runtime_context().get_assigned_resources()


lights = [Light.remote(i) for i in range(6)]
print(ray.get([light.get.remote() for light in lights]))
quarters = [Quarter.remote() for _ in range(4)]
print(ray.get([quarter.held.remote() for quarter in quarters]))
print(ray.get(Default.remote().held.remote()))
while ray.available_resources().get("CPU") != 1.0:
    pass
print("a CPU is left")
