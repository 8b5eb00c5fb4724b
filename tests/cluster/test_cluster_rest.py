"""Idle means idle with a cluster, too: while it is there, after it was left, and after it was lost."""
from __future__ import annotations

import os
import signal

import pytest
from real_machines import Machine, agent_of, logs_of, machines, processes_of
from support import wait_until, wait_until_at_rest
from test_networks import tell
from test_nodes import ends_well, program, says

TIMEOUTS = ("--node-timeout", "2", "--head-timeout", "3")
PROGRAM = """
    @cm.remote
    def local(i):
        return i + 1

    wait_for_nodes(2)
    assert cm.get([local.remote(i) for i in range(50)]) == list(range(1, 51))
    print("done", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("lost", [False, True])
def test_a_driver_beside_a_cluster_that_has_nothing_to_do_or_is_gone(lost: bool) -> None:
    with machines(Machine(), Machine()) as (here, mine):
        head = here.head(*TIMEOUTS)
        driver = program(mine, head, here.run("token"), PROGRAM)
        assert says(driver) == "done"
        agents = {agent_of(here), agent_of(mine)}  # they say that they live, twice a second
        if lost:
            os.kill(here.cluster()["head_pid"], signal.SIGKILL)
            wait_until(lambda: not processes_of(here), 30, "the idle node has ended, with all of its processes")
            wait_until(lambda: "Nothing new goes to other machines" in logs_of(mine), 30)
        wait_until_at_rest(lambda: {driver.pid, *processes_of(mine)} - agents)
        tell(driver, "end")
        ends_well(driver)
