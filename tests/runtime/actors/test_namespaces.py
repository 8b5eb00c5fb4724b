"""Where names are looked up: each driver has a namespace, and so have its tasks and actors, also where drivers share a
session.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest

import cellmesh
from cellmesh.util import list_named_actors

pytestmark = pytest.mark.timeout(60)

BEGIN = """
import sys
import cellmesh as cm
from cellmesh.util import get_placement_group, list_named_actors, placement_group

@cm.remote
class Counter:
    def __init__(self):
        self.n = 0
    def add(self):
        self.n += 1
        return self.n
    def namespace(self):
        return cm.get_runtime_context().namespace
    def child(self):
        return cm.get(namespace.remote())
    def makes(self, name):
        self.made = Counter.options(name=name).remote()
        return cm.get(self.made.namespace.remote())

@cm.remote
def namespace():
    return cm.get_runtime_context().namespace

@cm.remote
def nested():
    return cm.get(namespace.remote())

@cm.remote
def add(name):
    return cm.get(cm.get_actor(name).add.remote())

@cm.remote(num_cpus=0)
def groups(name):
    return get_placement_group(name).name
"""


@pytest.fixture
def address() -> Any:
    """Of a session of this process."""
    context = cellmesh.init(num_cpus=2, namespace="first", object_store_memory=64 << 20)
    yield context["address"]
    cellmesh.shutdown()


def joined(address: str, code: str, **arguments: str) -> list[str]:
    """What a program prints that joins the session."""
    given = "".join(f", {name}={value!r}" for name, value in arguments.items())
    code = f"{BEGIN}\ncm.init({address!r}{given})\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


@cellmesh.remote
class Named:
    def namespace(self) -> str:
        return cellmesh.get_runtime_context().namespace


@cellmesh.remote
def own_namespace() -> str:
    return cellmesh.get_runtime_context().namespace


def test_who_joins_has_a_namespace_of_its_own(address: str) -> None:
    actor = Named.options(name="shared").remote()
    said = joined(
        address,
        """
        own = cm.get_runtime_context().namespace
        try:
            cm.get_actor("shared")
        except ValueError as error:
            print("namespace='first'" in str(error))
        print(cm.get(cm.get_actor("shared", namespace="first").namespace.remote()))
        counter = Counter.options(name="shared").remote()
        print(
            own.startswith("anonymous-"),
            {own}
            == set(
                cm.get(
                    [
                        namespace.remote(),
                        nested.remote(),
                        counter.namespace.remote(),
                        counter.child.remote(),
                        counter.makes.remote("inner"),
                    ]
                )
            ),
        )
        print(sorted(list_named_actors()), cm.get(add.remote("shared")), cm.get(add.remote("inner")))
        """,
    )
    assert said == ["True", "first", "True True", "['inner', 'shared'] 1 1"]
    assert cellmesh.get(actor.namespace.remote()) == cellmesh.get(own_namespace.remote()) == "first"
    assert list_named_actors() == ["shared"]


def test_two_that_join_share_a_namespace_that_both_ask_for(address: str) -> None:
    code = (
        "counter = Counter.options(name='n', get_if_exists=True, lifetime='detached').remote(); "
        "print(cm.get(counter.add.remote()), cm.get(nested.remote()))"
    )
    assert joined(address, code, namespace="lab") == ["1 lab"]
    assert joined(address, code, namespace="lab") == ["2 lab"]
    assert joined(address, code, namespace="first") == ["1 first"]
    assert joined(address, code)[0].startswith("1 anonymous-")
    assert cellmesh.get(cellmesh.get_actor("n", namespace="lab").add.remote()) == 3
    assert cellmesh.get(own_namespace.remote()) == "first"


def test_an_actor_that_starts_again_is_where_it_was(address: str) -> None:
    said = joined(
        address,
        """
        counter = Counter.options(max_restarts=1).remote()
        print(cm.get(counter.namespace.remote()))
        cm.kill(counter, no_restart=False)
        print(cm.get(counter.namespace.remote()), cm.get(counter.child.remote()))
        """,
        namespace="lab",
    )
    assert said == ["lab", "lab lab"]


def test_with_a_runtime_env_beside_it(address: str) -> None:
    said = joined(
        address,
        """
        import os
        @cm.remote(runtime_env={"env_vars": {"COLOUR": "red"}})
        def seen():
            return (
                os.environ.get("COLOUR"),
                cm.get_runtime_context().namespace,
                cm.get(namespace.remote()),
                cm.get_runtime_context().runtime_env,
            )
        print(*cm.get(seen.remote()))

        """,
        namespace="lab",
    )
    assert said == ["red lab lab {'env_vars': {'COLOUR': 'red'}}"]


def test_groups_are_named_there_too(address: str) -> None:
    said = joined(
        address,
        """
        group = placement_group([{"CPU": 1}], name="pair")
        print(group.wait(30), cm.get(group.ready()).name, cm.get(groups.remote("pair")))
        """,
        namespace="lab",
    )
    assert said == ["True pair pair"]
    assert cellmesh.get(own_namespace.remote()) == "first"


def test_many_that_join_one_after_the_other_leave_nothing(address: str) -> None:
    for i in range(6):
        assert joined(address, "print(cm.get(nested.remote()))", namespace=f"n{i}") == [f"n{i}"]
    assert cellmesh.get([own_namespace.remote() for _ in range(4)]) == ["first"] * 4
