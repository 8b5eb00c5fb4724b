"""A ref that a function reads from around it is captured, and holds its object."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
data = ray.put(np.ones(200_000))


@ray.remote
def total(scale):
    return float(ray.get(data).sum() * scale)


print(ray.get([total.remote(i) for i in range(3)]))


def make():
    hidden = ray.put("only in the closure")

    @ray.remote
    def reveal():
        return ray.get(hidden)
    return reveal


print(ray.get(make().remote()))


@ray.remote
class Model:
    weights = ray.put([1, 2, 3])

    def predict(self, i):
        return ray.get(self.weights)[i]


model = Model.remote()
print(ray.get([model.predict.remote(i) for i in range(3)]))
