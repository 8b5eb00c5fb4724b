"""ray.util.multiprocessing.Pool: the interface of the standard library."""
import ray
from ray.util.multiprocessing import Pool

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def double(x):
    return 2 * x


def add(x, y):
    return x + y


def fail(x):
    raise ValueError(x)


with Pool(2) as pool:
    print(pool.map(double, range(6)), pool.starmap(add, [(1, 2), (3, 4)]))
    print(pool.apply(add, (1,), {"y": 5}), pool.apply_async(double, (4,)).get(timeout=30))
    print(list(pool.imap(double, range(4), chunksize=2)), sorted(pool.imap_unordered(double, range(4))))
    result = pool.map_async(double, [1, 2])
    result.wait(timeout=30)
    print(result.ready(), result.successful(), result.get())
    called = []
    pool.apply_async(double, (21,), callback=called.append).get()
    print(called)
    try:
        pool.map(fail, [7])
    except ValueError as error:
        print("ValueError")
    failed = pool.apply_async(fail, (1,))
    failed.wait(30)
    print(failed.ready(), failed.successful())
pool = Pool(processes=1, initializer=lambda x: globals().update(x=x), initargs=(5,))
print(pool.map(double, []))
pool.close()
pool.join()
try:
    pool.map(double, [1])
except ValueError as error:
    print(type(error).__name__)
