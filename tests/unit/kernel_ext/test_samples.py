"""The load of the machine: the history is bounded, and one look finds plausible numbers."""

from __future__ import annotations

from cellmesh.kernel_ext.graph import samples
from cellmesh.kernel_ext.graph.machine import Machine
from cellmesh.kernel_ext.graph.samples import Samples
from cellmesh.kernel_ext.panel_messages import NodeLabel, Sample


def test_a_full_history_becomes_coarser_and_keeps_its_ends(monkeypatch) -> None:
    monkeypatch.setattr(samples, "N_SAMPLES_MAX", 8)
    history = Samples()
    history.nodes[0] = NodeLabel("a")
    for at in range(100):
        history.add(Sample(0, float(at)))
        kept = [sample.at for sample in history.since(0)]
        assert len(kept) <= 8 and kept[0] == 0.0 and kept[-1] == at and kept == sorted(kept)
    assert history.count == 100


def test_a_front_end_gets_what_it_has_not_had() -> None:
    samples = Samples()
    for at in range(5):
        samples.add(Sample(0, float(at)))
    assert [sample.at for sample in samples.since(3)] == [3.0, 4.0] and samples.since(5) == []


def test_this_machine_is_looked_at() -> None:
    machine = Machine()
    stats = {"used_bytes": 5, "capacity_bytes": 50, "offloaded_bytes": 7}
    label = machine.label({"CPU": 2.0}, stats)
    assert label.name and label.cpus == 2.0 and label.memory > 1e6 and label.store == 50
    sample = machine.sample(1.234, {"CPU": 2.0}, {"CPU": 0.5}, stats)
    assert (sample.node, sample.at, sample.cpus, sample.gpus, sample.store, sample.disk) == (0, 1.23, 1.5, 0.0, 5, 7)
    assert machine.label({"GPU": 2.0}, stats).gpus == 2.0
    assert machine.sample(2.0, {"GPU": 2.0}, {"GPU": 0.5}, stats).gpus == 1.5
    assert 0 <= sample.load <= 1 and 1e6 < sample.memory <= label.memory
