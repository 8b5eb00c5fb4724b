"""`python tests/engines/ray_cluster.py [ARGUMENTS]`: a Ray cluster of two nodes on this machine, of two CPUs each, or
with what is given as JSON of a node's arguments. Prints its address, and ends it when its standard input ends."""

from __future__ import annotations

import json
import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 2, "object_store_memory": 256 << 20}

if __name__ == "__main__":
    node = {**NODE, **(json.loads(sys.argv[1]) if sys.argv[1:] else {})}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        cluster.add_node(**node)
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()
