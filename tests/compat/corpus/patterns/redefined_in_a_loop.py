"""Anti-pattern: decorating in a loop; each definition is a function of its own, and all work."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
outputs = []
for i in range(3):
    @ray.remote
    def exp(base, i=i):
        return base ** i

    outputs.append(exp.remote(2))
print(ray.get(outputs))

outputs = []
for i in range(3):
    @ray.remote
    class Power:
        def __init__(self, exponent):
            self.exponent = exponent

        def of(self, base):
            return base ** self.exponent

    outputs.append(Power.remote(i).of.remote(3))
print(ray.get(outputs))


@ray.remote
def version():
    return 1


first = version.remote()


@ray.remote
def version():  # noqa: F811
    return 2


print(ray.get([first, version.remote()]))
