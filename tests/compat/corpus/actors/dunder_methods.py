"""Special methods of an actor's class: called by name on the handle, never by an operator."""
import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


@ray.remote
class Shelf:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, at):
        return self.items[at]

    def __call__(self, item):
        self.items.append(item)
        return len(self.items)

    def __contains__(self, item):
        return item in self.items


def attempt(what, function):
    try:
        print(what, function())
    except Exception as error:
        print(what, type(error).__name__)


shelf = Shelf.remote("a", "b")
attempt("__len__", lambda: ray.get(shelf.__len__.remote()))
attempt("__getitem__", lambda: ray.get(shelf.__getitem__.remote(1)))
attempt("__call__", lambda: ray.get(shelf.__call__.remote("c")))
attempt("__contains__", lambda: ray.get(shelf.__contains__.remote("c")))
attempt("len()", lambda: len(shelf))
attempt("[]", lambda: shelf[0])
attempt("in", lambda: "a" in shelf)
attempt("()", lambda: shelf("d"))
attempt("direct", lambda: shelf.__len__())
attempt("no such method", lambda: shelf.missing.remote())
