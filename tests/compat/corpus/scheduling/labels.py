"""Labels of a node, and tasks that ask for them."""
import ray

ray.init(num_cpus=2, labels={"zone": "north", "tier": "gold"}, include_dashboard=False, log_to_driver=False)
labels = ray.nodes()[0]["Labels"]
print({key: labels.get(key) for key in ("zone", "tier")})


@ray.remote
def where():
    labels = ray.get_runtime_context().get_node_labels()
    return labels.get("zone")


for selector in {"zone": "north"}, {"zone": "in(south,north)"}, {"zone": "!south"}, {"tier": "!in(silver)"}:
    print(selector, ray.get(where.options(label_selector=selector).remote(), timeout=30))
missing = where.options(label_selector={"zone": "south"}).remote()
print(len(ray.wait([missing], timeout=0.3)[0]))
for wrong in "zone", {"zone": "in(north"}:
    try:
        where.options(label_selector=wrong).remote()
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, wrong)
