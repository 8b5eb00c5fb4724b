"""options(): another amount, another name, for one call; and options that there are not."""
import ray

ray.init(num_cpus=2, resources={"scanner": 1}, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=2, max_retries=1)
def held():
    return sorted(ray.get_runtime_context().get_assigned_resources().items())


print(ray.get(held.remote()))
print(ray.get(held.options(num_cpus=0.5, resources={"scanner": 1}).remote()))
lighter = held.options(num_cpus=1)
print(ray.get(lighter.remote()), ray.get(held.remote()))


@ray.remote
def name():
    return ray.get_runtime_context().get_task_name()


print(ray.get(name.remote()), ray.get(name.options(name="a scan").remote()))


def attempt(what, call):
    try:
        call()
        print(what, "accepted")
    except Exception as error:
        print(what, "TypeError" if isinstance(error, TypeError) else type(error).__name__)


attempt("unknown option", lambda: name.options(cpus=1).remote())
attempt("negative amount", lambda: name.options(num_cpus=-1).remote())
attempt("text as amount", lambda: name.options(num_cpus="two").remote())
attempt("fraction above one", lambda: name.options(num_gpus=1.5).remote())
attempt("cpu as a resource", lambda: name.options(resources={"CPU": 1}).remote())
attempt("an actor's option", lambda: name.options(max_restarts=1).remote())
attempt("max_calls", lambda: name.options(max_calls=-1).remote())
attempt("decorator with an unknown option", lambda: ray.remote(cores=1)(held._function))
