"""The runtime context of a driver, a task and an actor."""
import ray

ray.init(num_cpus=2, namespace="tour", include_dashboard=False, log_to_driver=False)
context = ray.get_runtime_context()
print(context.namespace, bool(context.get_job_id()), context.get_actor_id(), context.get_task_id() is None)
print(context.get_node_id() == ray.nodes()[0]["NodeID"])


@ray.remote(num_cpus=1)
def in_task():
    here = ray.get_runtime_context()
    return (here.get_job_id(), here.get_node_id(), here.get_actor_id(), bool(here.get_task_id()), here.namespace,
            here.get_assigned_resources(), here.get_task_name(), here.get_task_function_name().split(".")[-1])


job, node, *others = ray.get(in_task.remote())
print(job == context.get_job_id(), node == context.get_node_id(), others)


@ray.remote(num_cpus=1)
class Place:
    def look(self):
        here = ray.get_runtime_context()
        return (len(here.get_actor_id()), here.get_actor_name(), here.was_current_actor_reconstructed,
                here.get_assigned_resources(), here.current_actor == here.current_actor)

    def me(self):
        return ray.get_runtime_context().current_actor


place = Place.options(name="here").remote()
print(ray.get(place.look.remote()))
print(ray.get(ray.get(place.me.remote()).look.remote())[1])
