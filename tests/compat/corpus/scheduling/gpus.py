"""GPUs that are only counted: ids, CUDA_VISIBLE_DEVICES, fractions, and tasks without any."""
import os

import ray

ray.init(num_cpus=4, num_gpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def none():
    return ray.get_gpu_ids()


@ray.remote(num_gpus=1)
def one():
    return len(ray.get_gpu_ids()), os.environ["CUDA_VISIBLE_DEVICES"] in ("0", "1"), ray.get_runtime_context().get_accelerator_ids()["GPU"] != []


@ray.remote(num_gpus=0.5)
class Half:
    def ids(self):
        return [str(i) for i in ray.get_gpu_ids()]


print(ray.cluster_resources()["GPU"], ray.get(none.remote()), ray.get(one.remote()))
print(ray.get(one.options(num_gpus=2).remote())[0])
halves = [Half.remote() for _ in range(4)]
print(sorted(sum(ray.get([half.ids.remote() for half in halves]), [])))
waiting = one.remote()
print(ray.wait([waiting], timeout=0.3)[0])
for half in halves[:2] if ray.get(halves[0].ids.remote()) == ray.get(halves[1].ids.remote()) else [halves[0], halves[2]]:
    ray.kill(half)
print(ray.get(waiting, timeout=30)[0])
