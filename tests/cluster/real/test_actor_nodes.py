"""Actors on real nodes: where they live, their names in the whole cluster, and what becomes of them when machines
go.
"""

from __future__ import annotations

from pathlib import Path

from support.drivers import ends_well, program, says
from support.real_machines import Machine, kill_sessions, machines
from support.waiting import wheel

BEGINNING = """
@cm.remote
class Counter:
    def __init__(self, start=0, pause=0.0):
        time.sleep(pause)
        self.n = start

    def add(self, by=1):
        self.n += by
        return self.n

    def where(self):
        return os.environ["XDG_RUNTIME_DIR"]
"""


def test_a_name_is_one_in_the_whole_cluster() -> None:
    with machines(Machine(), Machine(), Machine()) as (first, second, third):
        head = first.head()
        one = program(
            second,
            head,
            first.run("token"),
            BEGINNING
            + """
counter = Counter.options(name="shared", namespace="n").remote(10)
assert cm.get(counter.add.remote()) == 11 and cm.get(counter.where.remote()) != os.environ["XDG_RUNTIME_DIR"]
[row] = cm.state.list_actors()
assert row["node"] and {row["node"]} == {
    task["node"] for task in cm.state.list_tasks() if task["actor"] == row["actor"]
}, (row, cm.state.list_tasks())
from cellmesh.kernel_ext.cards.actor_card import ActorCards
from cellmesh.kernel_ext.cells.registry import CellRegistry
card = ActorCards(CellRegistry(), lambda: None).mimebundle(counter)["text/plain"]
assert card.startswith(f"actor Counter 'shared': alive · {row['node']}") and repr(counter).endswith(": alive>"), card
print("made", flush=True)
sys.stdin.readline()
cm.kill(counter)
print("killed", flush=True)
sys.stdin.readline()
""",
            CPUS="0",
        )
        assert says(one) == "made"
        two = program(
            third,
            head,
            first.run("token"),
            BEGINNING
            + """
counter = cm.get_actor("shared", namespace="n")
assert cm.get([counter.add.remote() for _ in range(5)]) == [12, 13, 14, 15, 16]
try:
    Counter.options(name="shared", namespace="n").remote()
except ValueError as error:
    print(error, flush=True)
assert cm.get(Counter.options(name="shared", namespace="n", get_if_exists=True).remote().add.remote(0)) == 16
assert {"name": "shared", "namespace": "n"} in cm.util.list_named_actors(all_namespaces=True)

@cm.remote(num_cpus=1)
def use():
    counter = cm.get_actor("shared", namespace="n")
    return cm.get(counter.add.remote(100))

assert cm.get(use.remote()) == 116
assert [row["class_name"] for row in cm.state.list_actors() if row["state"] == "alive"] == ["Counter"], (
    cm.state.list_actors()
)
print("used", flush=True)
sys.stdin.readline()
while True:
    try:
        again = Counter.options(name="shared", namespace="n").remote(1)
        break
    except ValueError:
        time.sleep(0.1)
assert cm.get(again.add.remote()) == 2
""",
            CPUS="1",
        )
        assert (
            says(two)
            == "an actor named 'shared' is alive in namespace 'n': take it with cellmesh.get_actor('shared'), use "
            "get_if_exists=True, or choose another name"
        )
        assert says(two) == "used"
        for driver in (one, two):
            assert driver.stdin is not None
            driver.stdin.write("go\n")
            driver.stdin.flush()
        assert says(one) == "killed"
        ends_well(two)
        ends_well(one)


def test_the_driver_s_namespace_is_that_of_its_tasks_on_other_machines() -> None:
    with machines(Machine(), Machine()) as (first, second):
        head = first.head()
        driver = program(
            second,
            head,
            first.run("token"),
            BEGINNING
            + """
own = cm.get_runtime_context().namespace
counter = Counter.options(name="counter").remote(10)

@cm.remote(num_cpus=1)
def namespace():
    return cm.get_runtime_context().namespace

@cm.remote(num_cpus=1)
def nested():
    kept.append(Counter.options(name="made there").remote(5))
    return (
        cm.get(namespace.remote()),
        cm.get(cm.get_actor("counter").add.remote()),
        cm.get(cm.get_actor("made there").add.remote()),
        os.environ["XDG_RUNTIME_DIR"],
    )

kept = []
seen, added, made, where = cm.get(nested.remote())
assert where != os.environ["XDG_RUNTIME_DIR"] and own.startswith("anonymous-")
print(seen == own, added, made, flush=True)
""",
            CPUS="0",
        )
        assert says(driver) == "True 11 6"
        ends_well(driver)


def test_a_node_is_killed_and_its_actors_begin_again_elsewhere() -> None:
    with machines(Machine(), Machine(), Machine()) as (first, second, third):
        head = first.head()
        second_node = second.join(head, first.run("token"))
        driver = program(
            third,
            head,
            first.run("token"),
            BEGINNING
            + """
wait_for_nodes(2)
counters = [Counter.options(max_restarts=-1, max_task_retries=-1).remote(i, 0.3) for i in range(4)]
where = cm.get([counter.where.remote() for counter in counters])
print(*where, flush=True)
sys.stdin.readline()
print(*cm.get([counter.add.remote() for counter in counters]), flush=True)
print(*cm.get([counter.where.remote() for counter in counters]), flush=True)
""",
            CPUS="0",
        )
        before = says(driver).split()
        assert second.folder in before and first.folder in before and second_node["session"]
        kill_sessions(second)
        assert driver.stdin is not None
        driver.stdin.write("go\n")
        driver.stdin.flush()
        added = [int(n) for n in says(driver).split()]
        assert added == [i + 1 for i in range(4)]
        assert set(says(driver).split()) == {first.folder}
        ends_well(driver)


def test_folders_and_modules_of_the_driver_s_machine_are_there_too() -> None:
    with machines(Machine(), Machine()) as (first, second):
        head = first.head()
        folder = Path(second.folder, "project")
        (folder / "pack").mkdir(parents=True)
        (folder / "__pycache__").mkdir()
        (folder / "pack" / "__init__.py").write_text("from .inner import VALUE\n")
        (folder / "pack" / "inner.py").write_text("VALUE = 'from the package'\n")
        (folder / "single.py").write_text("VALUE = 'from the file'\n")
        (folder / "data.txt").write_text("from the folder")
        wheel(folder)
        driver = program(
            second,
            head,
            first.run("token"),
            """
from cellmesh.environment import packages
packages.machine = lambda: "a machine with folders of its own"
folder = os.environ["XDG_RUNTIME_DIR"] + "/project"

@cm.remote
def inner():
    import single
    return single.VALUE

@cm.remote
def look():
    import pack
    return open("data.txt").read(), pack.VALUE, os.environ["XDG_RUNTIME_DIR"], os.getcwd(), cm.get(inner.remote())

data, value, where, cwd, nested = cm.get(look.options(runtime_env={"working_dir": folder}).remote())
assert (data, value, nested) == ("from the folder", "from the package", "from the file")
assert where != os.environ["XDG_RUNTIME_DIR"] and cwd.startswith(where) and cwd.endswith("/project"), (
    where,
    cwd,
    os.environ["XDG_RUNTIME_DIR"],
)

@cm.remote(runtime_env={"py_modules": [folder + "/pack", folder + "/single.py"]})
class Looks:
    def look(self):
        import pack, single
        return (
            pack.VALUE,
            single.VALUE,
            [name for name in os.listdir(os.path.dirname(single.__file__)) if name != "__pycache__"],
        )

assert cm.get(Looks.remote().look.remote()) == ("from the package", "from the file", ["single.py"])

pip = ["--no-index", folder + "/cm_tiny-1.0-py3-none-any.whl"]
@cm.remote(runtime_env={"pip": pip, "env_vars": {"XDG_CACHE_HOME": folder + "/cache"}})
def version():
    import cm_tiny
    return cm_tiny.version, os.environ["XDG_RUNTIME_DIR"] != os.path.dirname(folder)

assert cm.get(version.remote()) == ("1.0", True)
""",
            CPUS="0",
        )
        ends_well(driver)
