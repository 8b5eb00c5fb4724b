"""Functions and classes of other languages: refused where nothing is loaded for them."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
for what, call in {
    "java function": lambda: ray.get(ray.cross_language.java_function("Math", "abs").remote(1), timeout=5),
    "cpp function": lambda: ray.get(ray.cross_language.cpp_function("Plus").remote(1, 2), timeout=5),
}.items():
    try:
        call()
        print(what, "accepted")
    except Exception as error:
        print(what, "refused")
