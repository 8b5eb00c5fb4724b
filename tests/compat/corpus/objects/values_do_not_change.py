"""What was put or passed is a copy: changes on either side are not seen on the other."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
numbers = [1, 2, 3]
ref = ray.put(numbers)
numbers.append(4)
print(ray.get(ref), numbers)
fetched = ray.get(ref)
fetched.append(99)
print(ray.get(ref), fetched)


@ray.remote
def change(values):
    values.clear()
    values.append("changed")
    return values


print(ray.get(change.remote(ref)), ray.get(ref))
mine = [5]
print(ray.get(change.remote(mine)), mine)


@ray.remote
class Store:
    def __init__(self, values):
        self.values = values

    def add(self, x):
        self.values.append(x)
        return self.values

    def all(self):
        return self.values


store = Store.remote(mine)
mine.append(6)
seen = ray.get(store.add.remote(7))
seen.append(8)
print(ray.get(store.all.remote()), mine, seen)
print(ray.get(ref) is ray.get(ref))
