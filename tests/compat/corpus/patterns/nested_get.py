"""Waiting in tasks for tasks: recursion that gathers with one get, refs passed down instead of values."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def leaf(i):
    return i


@ray.remote
def gather(refs):
    return sum(ray.get(refs))


@ray.remote
def waits_inside(n):
    return sum(ray.get([leaf.remote(i) for i in range(n)]))


@ray.remote
def returns_refs(n):
    return gather.remote([leaf.remote(i) for i in range(n)])


print(ray.get(waits_inside.remote(10)), ray.get(ray.get(returns_refs.remote(10))))


@ray.remote
def follow(ref_in_list):
    value = ref_in_list[0]
    hops = 0
    while isinstance(value, ray.ObjectRef):
        value, hops = ray.get(value), hops + 1
    return value, hops


print(ray.get(follow.remote([returns_refs.remote(4)])))
