"""`python tests/engines/native_values.py ENGINE ADDRESS`: a program that has a connection of its own with an engine,
beside its session, and takes values to and fro. Ends with an error if one is not what it must be."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from support.waiting import wait_until

import cellmesh as cm
from cellmesh.exceptions import EngineError, ObjectLostError
from cellmesh.util import engines

PATIENCE_S = 60.0


def double(value: Any) -> Any:
    """A task, here and there."""
    return 2 * value


def fail() -> None:
    """One that fails."""
    raise KeyError("there")


def wrong(call: Any, kind: type[Exception], text: str) -> None:
    """It raises that."""
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def on_ray(address: str) -> None:
    """With Ray."""
    import ray

    task = cm.remote(double)
    wrong(lambda: engines.to_native(cm.put(1)), EngineError, "ray.init(address=...)")
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    theirs = ray.remote(num_cpus=0)(double)
    pending = theirs.remote(ray.put(4))
    assert cm.get(task.remote(engines.from_native(pending)), timeout=PATIENCE_S) == 16
    large = engines.from_native(ray.put(np.arange(1_000_000)))
    assert int(cm.get(large, timeout=PATIENCE_S).sum()) == sum(range(1_000_000))
    made = engines.to_native(task.remote(np.ones(1_000_000)))
    assert float(ray.get(theirs.remote(made), timeout=PATIENCE_S).sum()) == 4_000_000
    failed = engines.from_native(ray.remote(num_cpus=0)(fail).remote())
    wrong(lambda: cm.get(failed, timeout=PATIENCE_S), KeyError, "there")
    wrong(lambda: ray.get(engines.to_native(cm.remote(fail).remote()), timeout=PATIENCE_S), KeyError, "there")
    owner = ray.remote(num_cpus=0)(Owner).remote()
    (lost,) = ray.get(owner.make.remote())
    ray.kill(owner)
    wrong(lambda: ray.get(owner.make.remote(), timeout=PATIENCE_S), ray.exceptions.RayActorError, "actor")
    wait_until(lambda: is_lost(lost), PATIENCE_S)  # who asks while the owner lives has a copy
    wrong(lambda: cm.get(engines.from_native(lost), timeout=PATIENCE_S), ObjectLostError, "Ray has that value no more")
    ray.shutdown()


def is_lost(ref: Any) -> bool:
    """Whether Ray has that value no more."""
    import ray

    try:
        ray.get(ref)
    except ray.exceptions.ObjectLostError:
        return True
    return False


class Owner:
    """An actor of Ray's that owns a value."""

    def make(self) -> list[Any]:
        import ray

        return [ray.put(np.ones(100_000))]


def on_dask(address: str) -> None:
    """With Dask."""
    from distributed import Client

    task = cm.remote(double)
    wrong(lambda: engines.to_native(cm.put(1)), EngineError, "Client(address)")
    with Client(address) as client:
        pending = client.submit(double, 4, pure=False)
        assert cm.get(task.remote(engines.from_native(pending)), timeout=PATIENCE_S) == 16
        large = engines.from_native(client.submit(np.arange, 1_000_000))
        assert int(cm.get(large, timeout=PATIENCE_S).sum()) == sum(range(1_000_000))
        made = engines.to_native(task.remote(np.ones(1_000_000)))
        assert float(client.submit(double, made).result(timeout=PATIENCE_S).sum()) == 4_000_000
        failed = engines.from_native(client.submit(fail, pure=False))
        wrong(lambda: cm.get(failed, timeout=PATIENCE_S), KeyError, "there")
        wrong(lambda: engines.to_native(cm.remote(fail).remote()), KeyError, "there")
        gone = client.submit(double, 5, pure=False)
        gone.cancel()
        wrong(lambda: engines.from_native(gone), ObjectLostError, "no more")


if __name__ == "__main__":
    name, where = sys.argv[1:]
    three: Any = 3
    cm.init(address=where, object_store_memory=256 << 20)
    wrong(lambda: engines.from_native(three), TypeError, "not int")
    wrong(lambda: engines.to_native(three), TypeError, "not int")
    if name == "ray":
        on_ray(where.removeprefix("ray:"))
    else:
        on_dask(where.replace("dask://", "tcp://"))
    ran_on = {row["node"] for row in cm.state.list_tasks() if row["name"] in ("from_native", "to_native")}
    assert ran_on <= {name}, ran_on
    cm.shutdown()
    print("all is as it must be")
