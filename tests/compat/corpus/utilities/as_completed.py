"""ray.util.as_completed and map_unordered: values as they come."""
import ray
from ray.util import as_completed, map_unordered

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)


@ray.remote
def double(x):
    return 2 * x


print(sorted(as_completed([double.remote(i) for i in range(3)])))
print(sorted(as_completed([double.remote(i) for i in range(4)], chunk_size=2)))
print(sorted(map_unordered(double, [5, 1, 3])))


@ray.remote
class Adder:
    def add(self, x):
        return x + 1


print(sorted(map_unordered(Adder.remote().add, range(5), backpressure_size=2, chunk_size=1)))
try:
    list(map_unordered(double, [0], backpressure_size=1, chunk_size=4))
    print("accepted")
except ValueError:
    print("ValueError")
