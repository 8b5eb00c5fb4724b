"""ray.method and options of methods: several returns, names, retries."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Tool:
    @ray.method(num_returns=2)
    def both(self, x):
        return x, -x

    def pair(self):
        return 1, 2

    @ray.method(num_returns=0)
    def nothing(self):
        return None

    @ray.method(max_task_retries=2, retry_exceptions=[ConnectionError])
    def flaky(self):
        self.n = getattr(self, "n", 0) + 1
        if self.n < 3:
            raise ConnectionError(self.n)
        return self.n

    def name(self):
        return ray.get_runtime_context().get_task_name()


tool = Tool.remote()
positive, negative = tool.both.remote(3)
print(ray.get([positive, negative]), ray.get(tool.pair.remote()))
print(ray.get(list(tool.pair.options(num_returns=2).remote())), tool.nothing.remote())
print(ray.get(tool.both.options(num_returns=1).remote(4)))
print(ray.get(tool.flaky.remote()))
print(ray.get(tool.name.remote()), ray.get(tool.name.options(name="asked").remote()))


try:
    @ray.remote
    class Painted:
        @ray.method(colour="red")
        def paint(self):
            pass
    print("accepted")
except (AssertionError, TypeError, ValueError) as error:
    print("colour" in str(error))
