"""Recursive tasks: Fibonacci, a binary tree of tasks, mutual recursion."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def fib(n):
    if n < 2:
        return n
    return sum(ray.get([fib.remote(n - 1), fib.remote(n - 2)]))


print([ray.get(fib.remote(n)) for n in range(6)])


@ray.remote
def tree_sum(numbers):
    if len(numbers) == 1:
        return numbers[0]
    middle = len(numbers) // 2
    left, right = tree_sum.remote(numbers[:middle]), tree_sum.remote(numbers[middle:])
    return ray.get(left) + ray.get(right)


print(ray.get(tree_sum.remote(list(range(8)))))


@ray.remote
def ping(n):
    return ["ping"] + (ray.get(pong.remote(n - 1)) if n else [])


@ray.remote
def pong(n):
    return ["pong"] + (ray.get(ping.remote(n - 1)) if n else [])


print(ray.get(ping.remote(3)))
