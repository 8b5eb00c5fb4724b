"""Refs compare, hash, sort into dicts and sets; their ids are texts and bytes."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
a, b = ray.put(1), ray.put(1)
print(a == a, a == b, a != b, a == 1, a in [b, a], len({a, b, a}))
names = {a: "first", b: "second"}
print(names[a], names[b], bool(a))


@ray.remote
def same(box):
    return box[0]


again = ray.get(same.remote([a]))
print(again == a, hash(again) == hash(a), again is a, names[again])
print(a.hex() == a.binary().hex(), a.hex() != b.hex())
print(repr(a) == f"ObjectRef({a.hex()})", isinstance(a, ray.ObjectRef), ray.ObjectID is not None, a.is_nil())
result = same.remote([a])
print(bool(result.task_id().hex()), result.task_id() != same.remote([a]).task_id(), a.job_id().hex() == ray.get_runtime_context().get_job_id())
for what, call in {"iterate": lambda: iter(a), "index": lambda: a[0], "call": lambda: a(), "add": lambda: a + 1, "length": lambda: len(a)}.items():
    try:
        call()
        print(what, "accepted")
    except TypeError as error:
        print(what, type(error).__name__)
