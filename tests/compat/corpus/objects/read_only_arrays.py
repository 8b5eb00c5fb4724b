"""Arrays come back read-only, without a copy; a copy may be written."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
ref = ray.put(np.arange(100_000, dtype=np.int32).reshape(100, 1000))
array = ray.get(ref)
print(array.shape, array.dtype, array.flags.writeable, int(array.sum()))
try:
    array[0, 0] = 1
except ValueError as error:
    print("ValueError:", error)
copy = array.copy()
copy[0, 0] = 5
print(int(copy[0, 0]), int(ray.get(ref)[0, 0]))


@ray.remote
def increase(a):
    try:
        a += 1
        return "written"
    except ValueError as error:
        return str(error)


@ray.remote
def row_sums(a):
    return a.sum(axis=1)


print(ray.get(increase.remote(ref)))
sums = ray.get(row_sums.remote(ref))
print(sums.dtype, int(sums[0]), int(sums[-1]))
for value in np.float64(2.5), np.array("text"), np.array([None, 1], dtype=object), np.zeros((0, 3)), np.datetime64("2020-01-01"):
    back = ray.get(ray.put(value))
    print(type(back).__name__, back.dtype, back.shape, back.tolist() if back.ndim else back)
record = np.array([(1, 2.0), (3, 4.0)], dtype=[("id", "i4"), ("x", "f8")])
print(ray.get(ray.put(record))["x"].tolist(), ray.get(ray.put(np.arange(6)[::2])).tolist())
