"""Processes of one's own in a task: subprocess, multiprocessing with spawn, and their ends."""
import multiprocessing
import subprocess
import sys

import ray


@ray.remote
def in_a_process(x):
    return int(subprocess.run([sys.executable, "-c", f"print({x} * 2)"], capture_output=True, text=True, check=True).stdout)


@ray.remote
def shell():
    return subprocess.check_output("echo from a shell", shell=True, text=True).strip()


@ray.remote
def spawned():
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.map(abs, [-1, -2])


@ray.remote
def fails():
    subprocess.run(["false"], check=True)


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    print(ray.get([in_a_process.remote(i) for i in range(2)]), ray.get(shell.remote()), ray.get(spawned.remote()))
    try:
        ray.get(fails.remote())
    except subprocess.CalledProcessError as error:
        print(error.cause.returncode, error.cause.cmd)
