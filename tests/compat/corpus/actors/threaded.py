"""max_concurrency of a plain class: methods side by side in threads; the constructor is first."""
import threading

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote(max_concurrency=3)
class Hall:
    def __init__(self):
        self.barrier, self.lock, self.n = threading.Barrier(3), threading.Lock(), 0

    def meet(self):
        return self.barrier.wait(timeout=30) in range(3), threading.get_ident()

    def add(self):
        with self.lock:
            self.n += 1
            return self.n


hall = Hall.remote()
met = ray.get([hall.meet.remote() for _ in range(3)])
print([fine for fine, _ in met], len({ident for _, ident in met}))
print(sorted(ray.get([hall.add.remote() for _ in range(10)])))


@ray.remote
class Single:
    def __init__(self):
        self.idents = set()

    def note(self):
        self.idents.add(threading.get_ident())
        return len(self.idents)


single = Single.remote()
print(ray.get([single.note.remote() for _ in range(5)]))
print(ray.get(Hall.options(max_concurrency=5).remote().add.remote()))
for wrong in -1, "many":
    try:
        Hall.options(max_concurrency=wrong).remote()
        print("accepted", wrong)
    except (TypeError, ValueError) as error:
        print("TypeError" if isinstance(error, TypeError) else type(error).__name__, wrong)
