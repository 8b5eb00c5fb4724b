"""A function becomes a task: called with remote(), never directly."""
import ray

print(ray.is_initialized())
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
print(ray.is_initialized())


@ray.remote
def square(x):
    return x * x


ref = square.remote(7)
print(type(ref).__name__, ray.get(ref))
print(ray.get([square.remote(i) for i in range(5)]))
try:
    square(7)
except TypeError as error:
    print("TypeError:", "cannot be called directly" in str(error), ".remote(" in str(error))
plain = square._function
print(plain(3))
ray.shutdown()
print(ray.is_initialized())
