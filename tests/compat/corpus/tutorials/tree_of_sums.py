"""From the exercises: a sum as a chain, as a tree, and with actors that hold their part."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def create(i):
    return np.full(1000, float(i))


@ray.remote
def add(x, y):
    return x + y


vectors = [create.remote(i) for i in range(8)]
chain = vectors[0]
for vector in vectors[1:]:
    chain = add.remote(chain, vector)
tree = list(vectors)
while len(tree) > 1:
    tree.append(add.remote(tree.pop(0), tree.pop(0)))
print(float(ray.get(chain)[0]), bool(np.array_equal(ray.get(chain), ray.get(tree[0]))))


@ray.remote(num_cpus=0)
class Part:
    def __init__(self, i):
        self.value = np.full(3, float(i))

    def add(self, other):
        self.value = self.value + other
        return self.value

    def get(self):
        return self.value


parts = [Part.remote(i) for i in range(4)]
while len(parts) > 1:
    half = len(parts) // 2
    ray.get([left.add.remote(right.get.remote()) for left, right in zip(parts[:half], parts[half:])])
    parts = parts[:half]
print(ray.get(parts[0].get.remote()).tolist())
