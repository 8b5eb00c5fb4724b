"""init and shutdown: again and again, twice by mistake, as a context, with wrong arguments."""
import ray


@ray.remote
def hello(name="world"):
    return f"hello {name}"


print(ray.is_initialized())
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
print(ray.is_initialized(), ray.get(hello.remote()))
try:
    ray.init(num_cpus=2)
except RuntimeError as error:
    print("RuntimeError", "ray.init" in str(error), "twice" in str(error))
context = ray.init(ignore_reinit_error=True)
print(type(context).__name__)
ray.shutdown()
ray.shutdown()
print(ray.is_initialized())
with ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False) as context:
    print(ray.get(hello.remote("again")), sorted(name for name in context.address_info if name in ("node_id", "session_dir")), ray.cluster_resources()["CPU"])
print(ray.is_initialized())
for what, call in {"unknown": lambda: ray.init(cpus=2)}.items():
    try:
        call()
        print(what, "accepted")
    except Exception as error:
        print(what, type(error).__name__)
for what, call in {"nodes": ray.nodes, "cluster_resources": ray.cluster_resources, "get_gpu_ids": ray.get_gpu_ids}.items():
    try:
        call()
        print(what, "accepted")
    except Exception as error:
        print(what, isinstance(error, ray.exceptions.RaySystemError), ray.is_initialized())
    ray.shutdown()
print(isinstance(ray.__version__, str), ray.SCRIPT_MODE, ray.WORKER_MODE)
