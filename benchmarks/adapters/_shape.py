"""Gives a peer Ray's shape: remote(f).remote(...), get, put, wait, from a few functions the peer supplies.

Only what the workloads need, written as a plain user of that peer would write it. What a peer has no word for
stays in its UNSUPPORTED; what it lacks but any user would do by hand (waiting for a future before handing its
value to the next task) is done by hand here, and is part of its price."""


class Fn:
    def __init__(self, f, call):
        self._f, self._call = f, call

    def remote(self, *a, **k):
        return self._call(self._f, a, k)

    def options(self, **_):
        return self


class Method:
    __slots__ = ("_h", "_name")

    def __init__(self, h, name):
        self._h, self._name = h, name

    def remote(self, *a, **k):
        return self._h._call(self._name, a, k)


class Handle:
    """Subclasses give _call(name, args, kwargs)."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return Method(self, name)


class Cls:
    def __init__(self, cls, make):
        self._cls, self._make = cls, make

    def remote(self, *a, **k):
        return self._make(self._cls, a, k)

    def options(self, **_):
        return self


def remote_for(call, make_actor=None):
    def remote(f=None, **options):
        if f is None:
            return remote
        return Cls(f, make_actor) if isinstance(f, type) else Fn(f, call)

    return remote


ACTORS = {
    "actor_sync",
    "actor_async",
    "actor_async_arg",
    "actor_concurrent",
    "actor_1_n",
    "actor_n_n",
    "actor_n_n_arg",
    "actor_create",
    "get_actor_by_name",
    "async_actor_sync",
    "async_actor_async",
    "async_actor_async_arg",
    "async_actor_n_n",
    "async_actor_naps",
    "kill_actor_restart",
    "group_loop",
    "group_call",
    "group_1mb",
    "group_1mb_loop",
    "group_made_1",
    "group_made_8_loop",
    "group_made_8",
}
NESTED = {
    "tasks_multi",
    "nested_100",
    "fib_10",
    "put_small_multi",
    "put_large_multi",
    "get_10k_refs",
    "actor_1_n",
    "actor_n_n",
    "actor_n_n_arg",
    "async_actor_n_n",
    "get_large",
}
PUT = {
    "get_small",
    "put_small",
    "put_small_multi",
    "put_large",
    "put_large_zeros",
    "put_large_multi",
    "put_1mb",
    "get_10k_refs",
    "get_large",
    "get_large_again",
    "task_arg_100mb_ref",
    "tasks_10_refs",
    "actor_async_arg",
    "group_1mb_loop",
    "refs_put_memory",
}
CANCEL = {"cancel_running", "cancel_sleeping", "cancel_forced", "refs_outstanding_memory"}
