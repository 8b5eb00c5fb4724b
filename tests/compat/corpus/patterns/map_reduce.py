"""Map, then reduce: all at once, as a tree, and in the order in which results come."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def square(x):
    return x * x


@ray.remote
def add(*values):
    return sum(values)


squares = [square.remote(i) for i in range(16)]
print(ray.get(add.remote(*squares)))
tree = list(squares)
while len(tree) > 1:
    tree = tree[2:] + [add.remote(tree[0], tree[1])]
print(ray.get(tree[0]))
waiting, total, order = list(squares), 0, 0
while waiting:
    [ready], waiting = ray.wait(waiting)
    total, order = total + ray.get(ready), order + 1
print(total, order)


@ray.remote
def maximum(left, right):
    return max(left, right)


def reduce_tree(task, refs):
    while len(refs) > 1:
        refs = [task.remote(*pair) if len(pair) == 2 else pair[0] for pair in (refs[i:i + 2] for i in range(0, len(refs), 2))]
    return refs[0]


print(ray.get(reduce_tree(maximum, squares[:7])))
