"""dask.distributed: LocalCluster of processes with one thread each, Client.submit for every task."""

import itertools
import os

import distributed
from _shape import CANCEL, Handle, remote_for
from distributed import Client, Future, LocalCluster, get_client, rejoin, secede
from distributed import wait as dask_wait

__version__ = distributed.__version__
UNSUPPORTED = CANCEL | {
    "get_10k_refs",
    "get_actor_by_name",
    "kill_actor_restart",
    "put_large_zeros",
    "put_large_multi",
    "get_large",
}
_box, _n = {}, itertools.count()


def init(num_cpus=2, address=None, **_):
    if address is not None:
        _box["client"] = Client(address)
        return
    # No nanny-imposed memory limit: 100 MB transfers must not pause a worker.
    _box["cluster"] = LocalCluster(
        n_workers=num_cpus,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        silence_logs=50,
        memory_limit=0,
    )
    _box["client"] = Client(_box["cluster"])


def shutdown():
    _box.pop("client").close()
    if "cluster" in _box:
        _box.pop("cluster").close()


def _client():
    return _box.get("client") or get_client()


def _call(f, a, k):
    return _client().submit(f, *a, **k, pure=False, key=f"{f.__name__}-{os.getpid()}-{next(_n)}")


class _Actor(Handle):
    def __init__(self, proxy):
        self._proxy = proxy

    def _call(self, name, a, k):
        return getattr(self._proxy, name)(*(get(x) if isinstance(x, Future) else x for x in a), **k)

    def __reduce__(self):
        return _Actor, (self._proxy,)


def _make(cls, a, k):
    return _Actor(_client().submit(cls, *a, **k, actor=True, pure=False).result())


remote = remote_for(_call, _make)


def put(x):
    return _client().scatter(x, hash=False)


def get(refs, timeout=None):
    one = not isinstance(refs, list)
    refs = [refs] if one else refs
    inside = "client" not in _box
    if inside:
        secede()
    try:
        if refs and not isinstance(refs[0], Future):
            out = [r.result(timeout) for r in refs]
        else:
            out = _client().gather(refs)
    finally:
        if inside:
            rejoin()
    return out[0] if one else out


def wait(refs, num_returns=1, timeout=None, fetch_local=True):
    r = dask_wait(refs, timeout, "ALL_COMPLETED" if num_returns == len(refs) else "FIRST_COMPLETED")
    done = list(r.done)
    return done[:num_returns], done[num_returns:] + list(r.not_done)


def kill(actor):
    actor._proxy = None
