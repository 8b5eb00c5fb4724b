"""Namespaces: names of actors belong to one; without one, it is anonymous."""
import ray


@ray.remote
class Note:
    def __init__(self, text):
        self.text = text

    def read(self):
        return self.text, ray.get_runtime_context().namespace


def find(name, namespace=None):
    try:
        return ray.get(ray.get_actor(name, namespace).read.remote())
    except ValueError:
        return "not found"


with ray.init(num_cpus=2, namespace="colors", include_dashboard=False, log_to_driver=False):
    orange = Note.options(name="orange").remote("o")
    purple = Note.options(name="purple", namespace="fruit").remote("p")
    print(find("orange"), find("purple"), find("purple", "fruit"), find("orange", "colors"), find("orange", "fruit"))
    print(ray.get_runtime_context().namespace)

print(ray.is_initialized())
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
space = ray.get_runtime_context().namespace
print(find("orange"), find("orange", "colors"), len(space) > 20)
mine = Note.options(name="mine").remote("m")
print(find("mine")[0], find("mine", space)[0], find("mine", "colors"))
ray.shutdown()
for wrong in "", 3:
    try:
        ray.init(num_cpus=1, namespace=wrong, include_dashboard=False, log_to_driver=False)
        print("accepted", repr(wrong))
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, repr(wrong))
    ray.shutdown()
