"""A ref at top level arrives as its value, a ref inside of something stays a ref."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
ref = ray.put("hello")


@ray.remote
def kinds(*args, **kwargs):
    return [type(a).__name__ for a in args], {k: type(v).__name__ for k, v in sorted(kwargs.items())}


print(ray.get(kinds.remote(ref, [ref], (ref,), {"k": ref}, {ref})))
print(ray.get(kinds.remote(top=ref, inside=[ref], none=None)))


@ray.remote
def resolve(refs):
    return ray.get(refs)


print(ray.get(resolve.remote([ref, ray.put("world")])))


@ray.remote
def pass_on(box):
    return box


back = ray.get(pass_on.remote({"deep": [[ref]]}))["deep"][0][0]
print(back == ref, ray.get(back))


class Envelope:
    def __init__(self, letter):
        self.letter = letter


envelope = ray.get(pass_on.remote(Envelope(ref)))
print(type(envelope.letter).__name__, ray.get(envelope.letter))


@ray.remote
class Keeper:
    def keep(self, box):
        self.ref = box[0]

    def look(self):
        return ray.get(self.ref)


keeper = Keeper.remote()
ray.get(keeper.keep.remote([ray.put("kept by the actor alone")]))
print(ray.get(keeper.look.remote()))
