"""put and get: values of many types, lists of refs, and what is neither."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
values = [1, -2.5, "text", b"bytes", None, True, [1, [2]], (1,), {"k": {"v"}}, 2**100, complex(1, 2), range(3), slice(1, 2),
          frozenset([1]), Ellipsis, float("inf")]
refs = [ray.put(value) for value in values]
print(ray.get(refs) == values, [type(value).__name__ for value in ray.get(refs)])
print(ray.get([]), ray.get([refs[0], refs[0]]))
print(ray.get(refs[2]))


def attempt(what, call):
    try:
        print(what, call())
    except Exception as error:
        print(what, type(error).__name__)


attempt("put a ref", lambda: ray.put(refs[0]))
attempt("get a number", lambda: ray.get(1))
attempt("get a tuple", lambda: ray.get((refs[0],)))
attempt("get a list with a number", lambda: ray.get([refs[0], 1]))
attempt("get a dict", lambda: ray.get({"a": refs[0]}))
attempt("refs in a list", lambda: ray.get(ray.get(ray.put([refs[0], refs[1]]))))
attempt("put nothing", lambda: ray.put())
