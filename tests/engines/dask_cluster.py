"""`python tests/engines/dask_cluster.py [ARGUMENTS]`: a Dask cluster on this machine, of two workers with a thread
each, or as the arguments of `LocalCluster` say that are given as JSON. Prints its scheduler's address; does what lines
of its standard input say, each a method's name and its arguments as JSON, or "n_tasks" or "n_queues", which prints of
how many its scheduler knows; ends with it."""

from __future__ import annotations

import json
import sys

from distributed import LocalCluster

if __name__ == "__main__":
    given = json.loads(sys.argv[1]) if sys.argv[1:] else {}
    with LocalCluster(**{"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, **given}) as cluster:
        print(cluster.scheduler_address.removeprefix("tcp://"), flush=True)
        for line in sys.stdin:
            name, arguments = json.loads(line)
            if name == "n_tasks":
                print(len(cluster.scheduler.tasks), flush=True)
            elif name == "n_queues":
                print(len(cluster.scheduler.extensions["queues"].queues), flush=True)
            else:
                getattr(cluster, name)(**arguments)
