"""Refs as arguments: a task starts when what it needs is there, and gets the values."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def load(name):
    return {"name": name, "rows": len(name) * 10}


@ray.remote
def clean(table, factor=1):
    return {**table, "rows": table["rows"] // factor}


@ray.remote
def join(left, right, *, how="inner"):
    return f"{left['name']}+{right['name']} {how} {left['rows'] + right['rows']}"


users, orders = load.remote("users"), load.remote("orders")
cleaned = [clean.remote(users), clean.remote(orders, factor=2)]
print(ray.get(join.remote(*cleaned)))
print(ray.get(join.remote(cleaned[0], right=orders, how="outer")))
print(ray.get(cleaned))
chain = ray.put(1)
add = ray.remote(lambda x, y: x + y)
for step in range(10):
    chain = add.remote(chain, step)
print(ray.get(chain))
