"""Trials on other machines: checkpoints travel there and back, and what a lost machine ran goes on elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.drivers import ends_well, program, says
from support.real_machines import Machine, kill_sessions, machines

# The driver's machine has no CPU, so every trial runs on another one. A trial says where it is, and goes on after its
# third step when it may.
DRIVER = """
import json
from pathlib import Path
from cellmesh import tune

go = Path(os.environ["GO"])

def train(config):
    start = tune.get_checkpoint()
    i = 0
    if start is not None and config["kind"] == "value":
        i = start.to_dict()["i"]
    elif start is not None:
        with start.as_directory() as folder:
            i = int(Path(folder, "i").read_text())
    while i < 6:
        i += 1
        place = Path(os.environ["XDG_RUNTIME_DIR"], f"saved-{os.getpid()}")
        place.mkdir(exist_ok=True)
        (place / "i").write_text(str(i))
        saved = {"i": i} if config["kind"] == "value" else place
        tune.report(i=i, where=os.environ["XDG_RUNTIME_DIR"], checkpoint=saved)
        while i == 3 and not go.exists():
            time.sleep(0.01)

wait_for_nodes(2)
search = tune.Tuner(train, {"kind": tune.grid_search(["value", "folder"])}, num_to_keep=None).start()
while len(search) < 2 or any(result.metrics.get("i", 0) < 3 for result in search):
    time.sleep(0.01)
print(json.dumps([result.metrics["where"] for result in search]), flush=True)
sys.stdin.readline()
search.wait(timeout=120)
print(json.dumps([[r.state, r.curve("i")[1], r.metrics["where"], r.error, len(r.checkpoints)] for r in search]))
"""


@pytest.mark.timeout(180)
def test_a_lost_machines_trials_go_on_elsewhere_from_their_checkpoints(tmp_path: Path) -> None:
    memory = ("--num-cpus", "1", "--object-store-memory", str(128 << 20))
    with machines(Machine(), Machine(), Machine()) as (here, there, mine):
        head = here.head(*memory)
        there.join(head, here.run("token"), *memory)
        driver = program(mine, head, here.run("token"), DRIVER, CPUS="0", GO=str(tmp_path / "go"))
        where = json.loads(says(driver))
        assert set(where) == {here.folder, there.folder}
        kill_sessions(there)
        (tmp_path / "go").touch()
        assert driver.stdin is not None
        driver.stdin.write("\n")
        driver.stdin.flush()
        found = json.loads(ends_well(driver))
    for state, steps, ended, error, n_checkpoints in found:
        assert (state, steps, error) == ("TERMINATED", [1, 2, 3, 4, 5, 6], "")
        assert ended == here.folder and n_checkpoints == 6
