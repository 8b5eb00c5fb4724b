"""Pictures in parallel: a fractal in strips, put together, drawn as text."""
import numpy as np
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
WIDTH, HEIGHT, DEPTH = 48, 15, 12


@ray.remote
def strip(start, stop):
    y = np.linspace(-1.2, 1.2, HEIGHT)[start:stop, None]
    x = np.linspace(-2.1, 0.8, WIDTH)[None, :]
    c = x + 1j * y
    z, steps = np.zeros_like(c), np.zeros(c.shape, dtype=int)
    for _ in range(DEPTH):
        alive = np.abs(z) <= 2
        z = np.where(alive, z * z + c, z)
        steps += alive
    return steps


picture = np.vstack(ray.get([strip.remote(start, min(start + 4, HEIGHT)) for start in range(0, HEIGHT, 4)]))
for row in picture:
    print("".join(" .:-=+*#%@@@@"[depth] for depth in row).rstrip())
print(picture.shape, int(picture.max()))
