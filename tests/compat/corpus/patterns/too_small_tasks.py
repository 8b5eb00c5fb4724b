"""Anti-pattern: tasks that are too small; and the same work in batches."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


def double(x):
    return 2 * x


numbers = list(range(200))
task = ray.remote(double)
fine = ray.get([task.remote(x) for x in numbers])


@ray.remote
def double_all(batch):
    return [double(x) for x in batch]


coarse = sum(ray.get([double_all.remote(numbers[i:i + 50]) for i in range(0, len(numbers), 50)]), [])
print(fine == coarse, len(coarse))
