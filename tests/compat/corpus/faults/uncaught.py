"""What nobody catches ends the program with an exit status of 1."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
def step(i):
    if i == 2:
        raise ArithmeticError("step two")
    return i


for i in range(4):
    print(ray.get(step.remote(i)))
print("never reached")
