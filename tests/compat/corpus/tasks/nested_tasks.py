"""Tasks that start tasks: refs as results, and waiting inside of tasks on two CPUs."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def leaf(x):
    return 2 * x


@ray.remote
def refs(n):
    return [leaf.remote(i) for i in range(n)]


@ray.remote
def values(n):
    return ray.get([leaf.remote(i) for i in range(n)])


@ray.remote
def depth(n):
    return 0 if n == 0 else 1 + ray.get(depth.remote(n - 1))


inner = ray.get(refs.remote(4))
print({type(ref).__name__ for ref in inner}, ray.get(inner))
print(ray.get(values.remote(4)))
print(ray.get(depth.remote(6)))


@ray.remote
def one_ref():
    return leaf.remote(21)


outer = one_ref.remote()
print(type(ray.get(outer)).__name__, ray.get(ray.get(outer)))
print(ray.get(leaf.remote(ray.get(outer))))
