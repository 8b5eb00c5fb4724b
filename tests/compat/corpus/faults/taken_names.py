"""A name that another actor has: the error's type, and the ways around it."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, namespace="taken")


@ray.remote
class Named:
    def who(self):
        return ray.get_runtime_context().get_actor_name()


def attempt(what, function):
    try:
        print(what, function())
    except Exception as error:
        kinds = (ray.exceptions.ActorAlreadyExistsError, TypeError, ValueError)
        print(what, [kind.__name__ for kind in kinds if isinstance(error, kind)][0], isinstance(error, ray.exceptions.RayError))


first = Named.options(name="one").remote()
print(ray.get(first.who.remote()))
attempt("again", lambda: Named.options(name="one").remote())
attempt("elsewhere", lambda: ray.get(Named.options(name="one", namespace="other").remote().who.remote()))
same = Named.options(name="one", get_if_exists=True).remote()
print(same == first or ray.get(same.who.remote()))
attempt("not there", lambda: ray.get_actor("two"))
attempt("no name", lambda: Named.options(name="").remote())
attempt("name no text", lambda: Named.options(name=1).remote())
attempt("lookup by number", lambda: ray.get_actor(1))
attempt("lookup of nothing", lambda: ray.get_actor(""))
ray.kill(first)
attempt("after its death", lambda: ray.get_actor("one"))
