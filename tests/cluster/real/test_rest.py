"""Idle means idle with a cluster, too: while it is there, after it was left, and after it was lost."""

from __future__ import annotations

import os
import signal

import pytest
from support.drivers import ends_well, program, says, tell
from support.real_machines import Machine, logs_of, machines, processes_of
from support.waiting import wait_until, wait_until_at_rest

TIMEOUTS = ("--head-timeout", "3")
PROGRAM = """
    @cm.remote
    def local(i):
        return i + 1

    wait_for_nodes(2)
    kept = [part.remote(i) for i in range(20)]  # some of them stay there
    cm.wait(kept, num_returns=20, fetch_local=False)
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
        if lost:
            os.kill(here.cluster()["head_pid"], signal.SIGKILL)
            wait_until(lambda: not processes_of(here), 30, "the idle node has ended, with all of its processes")
            wait_until(lambda: "Nothing new goes to other machines" in logs_of(mine), 30)
        # Agents look now and then whether what is another's is still referred to: the driver's functions there, and
        # results here.
        wait_until_at_rest(lambda: {driver.pid, *processes_of(mine), *processes_of(here)}, 60)
        tell(driver, "end")
        ends_well(driver)
