"""runtime_env: a working directory and modules that only tasks have."""
import os
import pathlib
import tempfile

import ray

folder, modules = pathlib.Path(tempfile.mkdtemp()), pathlib.Path(tempfile.mkdtemp())
(folder / "data.txt").write_text("from the folder")
(folder / "beside.py").write_text("NAME = 'beside'\n")
(modules / "helpers").mkdir()
(modules / "helpers/__init__.py").write_text("def greet(name):\n    return f'hello {name}'\n")
ray.init(num_cpus=2, runtime_env={"working_dir": str(folder), "py_modules": [str(modules / "helpers")]}, include_dashboard=False, log_to_driver=False)


@ray.remote
def look():
    import beside
    import helpers
    return open("data.txt").read(), beside.NAME, helpers.greet("task"), os.path.exists("nothing.txt")


@ray.remote
class Looker:
    def look(self):
        import helpers
        return helpers.greet("actor"), sorted(name for name in os.listdir(".") if not name.startswith("__"))


print(ray.get(look.remote()))
print(ray.get(Looker.remote().look.remote()))
try:
    import helpers
    print("the driver has it, too", helpers.__name__)
except ModuleNotFoundError as error:
    print(type(error).__name__)
