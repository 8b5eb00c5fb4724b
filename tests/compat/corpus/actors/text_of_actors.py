"""repr of handles and classes; __repr__ of the class itself."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Model:
    def __init__(self, index):
        self.index = index

    def __repr__(self):
        return f"Model(index={self.index})"

    def text(self):
        return repr(self), str(self)


model = Model.remote(2)
print(ray.get(model.text.remote()))
print(repr(model).startswith("Actor(Model, "), len(model._actor_id.hex()), repr(model) == f"Actor(Model, {model._actor_id.hex()})")


@ray.remote
def plain():
    return None


print(type(model).__name__, type(model.text).__name__)
print(type(ray.get_runtime_context()).__name__, type(plain.remote()).__name__)
