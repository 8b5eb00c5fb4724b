"""ipyparallel: a local cluster, LoadBalancedView for tasks, a DirectView on one engine for an "actor"."""

import itertools

import ipyparallel as ipp
from _shape import CANCEL, NESTED, PUT, Handle, remote_for

__version__ = ipp.__version__
UNSUPPORTED = (
    CANCEL
    | NESTED
    | PUT
    | {
        "get_actor_by_name",
        "kill_actor_restart",
        "kill_worker_retry",
        "tasks_sync_error",
        "wait_1k",
        "wait_1k_done",
        "actor_concurrent",
        "async_actor_sync",
        "async_actor_async",
        "async_actor_async_arg",
        "async_actor_naps",
        "actor_create",
    }
)
_box, _n, _here = {}, itertools.count(), {}


def init(num_cpus=2, **_):
    _box["cluster"] = c = ipp.Cluster(n=num_cpus, log_level=50)
    _box["rc"] = rc = c.start_and_connect_sync(activate=False)
    rc[:].use_cloudpickle()
    _box["view"] = rc.load_balanced_view()


def shutdown():
    _box.pop("rc").close()
    _box.pop("cluster").stop_cluster_sync()


def _value(x):
    return x.get() if isinstance(x, ipp.AsyncResult) else x


def _call(f, a, k):
    return _box["view"].apply_async(f, *(_value(x) for x in a), **k)


def _new(key, cls, a, k):
    import ipp_api

    ipp_api._here[key] = cls(*a, **k)


def _method(key, name, a, k):
    import ipp_api

    return getattr(ipp_api._here[key], name)(*a, **k)


class _Actor(Handle):
    def __init__(self, cls, a, k):
        i = next(_n)
        rc = _box["rc"]
        self._key, self._view = f"actor-{i}", rc[rc.ids[i % len(rc.ids)]]
        self._view.apply_sync(_new, self._key, cls, a, k)

    def _call(self, name, a, k):
        return self._view.apply_async(_method, self._key, name, a, k)


remote = remote_for(_call, _Actor)


def get(refs, timeout=None):
    if isinstance(refs, list):
        return [r.get(timeout) for r in refs]
    return refs.get(timeout)


def kill(actor):
    pass
