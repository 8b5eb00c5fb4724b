"""`python tests/engines/ray_cluster.py`: a Ray cluster of two nodes of two CPUs each, on this machine. Prints its
address, and ends it when its standard input ends."""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

NODE = {"num_cpus": 2, "object_store_memory": 256 << 20}

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        cluster.add_node(**NODE)
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()
