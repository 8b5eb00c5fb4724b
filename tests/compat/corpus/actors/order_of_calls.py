"""One caller's calls run in its order; several callers' interleave; async ones may overtake."""
import asyncio
import time

import ray

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)


@ray.remote
class Journal:
    def __init__(self):
        self.lines = []

    def note(self, who, i):
        self.lines.append((who, i))

    def of(self, who):
        return [i for name, i in self.lines if name == who]

    def count(self):
        return len(self.lines)


@ray.remote
def write(journal, who):
    ray.get([journal.note.remote(who, i) for i in range(20)])


@ray.remote
def late(value):
    time.sleep(0.3)
    return value


journal = Journal.remote()
ray.get([write.remote(journal, who) for who in "ab"])
print(ray.get(journal.count.remote()), [ray.get(journal.of.remote(who)) == list(range(20)) for who in "ab"])
journal.note.remote("c", late.remote(1))
journal.note.remote("c", 2)
print(ray.get(journal.of.remote("c")))


@ray.remote
class Async:
    def __init__(self):
        self.lines, self.turn = [], asyncio.Event()

    async def note(self, i):
        if i == 0:
            await self.turn.wait()
        self.lines.append(i)
        if i == 2:
            self.turn.set()

    async def all(self):
        return self.lines


overtaking = Async.remote()
ray.get([overtaking.note.remote(i) for i in range(3)])
lines = ray.get(overtaking.all.remote())
print(sorted(lines), lines.index(2) < lines.index(0))
