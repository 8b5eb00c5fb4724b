"""Stages in a row, each an actor; refs go from one to the next without passing the driver."""
import ray

ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)


@ray.remote(num_cpus=0)
class Reader:
    def read(self, i):
        return f"line {i}; value={i * i}"


@ray.remote(num_cpus=0)
class Parser:
    def parse(self, line):
        name, _, value = line.partition("; value=")
        return name, int(value)


@ray.remote(num_cpus=0)
class Sink:
    def __init__(self):
        self.total = 0

    def add(self, item):
        self.total += item[1]
        return f"{item[0]}: {self.total}"

    def result(self):
        return self.total


reader, parser, sink = Reader.remote(), Parser.remote(), Sink.remote()
outputs = [sink.add.remote(parser.parse.remote(reader.read.remote(i))) for i in range(5)]
print(ray.get(outputs))
print(ray.get(sink.result.remote()))
