"""Starts, joins, leaves and ends a driver's session. Workers: see `worker`."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from .. import front_end
from ..objstore import _core
from ..session.current import process, refuse_after_fork
from ..session.session import Config, Session, detached_in_words, sizes_of

if TYPE_CHECKING:
    from ..errors.reruns import Reruns
    from ..objstore._core import Client
    from ..scheduler.node.launch import Launch

PATIENCE_S = 2.0  # to wait for an engine without a word


def start(config: Config, launched: Launch | None = None) -> Session:
    """Start or join a session and make it this process's. The caller has seen to it that there is none.

    `launched`: the beginning of one, when it has been made already.
    """
    from ..scheduler.node.handle import Node
    from .init_arguments import cluster_config, engine_config, left_note
    from .worker_modules import worker_modules

    with process.starting:
        refuse_after_fork()
        if process.session is not None:  # by another thread, while this one was on its way here
            return process.session
        if config.address:
            node = Node.connect(config.address)
        else:
            node = Node.start(
                modules=worker_modules(),
                resources=config.resources,
                object_store_memory=config.object_store_memory,
                log_to_driver=config.log_to_driver,
                namespace=config.namespace,
                log_dir=config.log_dir,
                offload_dir=config.offload_dir,
                offload_limit=config.offload_limit,
                max_objects=config.max_objects,
                max_tasks=config.max_tasks,
                left_note=left_note(config),
                cluster=cluster_config(config),
                engine=engine_config(config),
                launched=launched,
            )
        session = _begin(node, config)
    if engine_config(config) is not None:
        _see_engine(session)
    return session


def _see_engine(session: Session) -> None:
    """Wait until the session's engine is there; it is an error if that cannot be."""
    from ..engines import addresses
    from ..errors.engine_limits import lost
    from ..exceptions import InsecureEngineWarning
    from ..text import warn_user

    try:
        if not session.engine_known(timeout=PATIENCE_S):
            print(f"cellmesh: waiting for {session.config.cluster} to answer", file=sys.stderr)
            session.engine_known()
    except BaseException:  # the stop button: nothing is left that has half begun
        shutdown()
        raise
    found = session.engine
    if found is not None and found.lost:
        shutdown()
        raise lost(found)
    if remedy := addresses.remedy_if_open(session.config.cluster, os.environ):
        warn_user(
            f"{session.config.cluster}: who can reach this address can run code on it, and here, where its results "
            f"are unpickled. {remedy}",
            InsecureEngineWarning,
        )


def adopt(address: str, config: Config) -> Session | None:
    """Make the session that an earlier driver has left this process's; None: it has ended, or somebody else has it.

    `config`: as it was started with.
    """
    from ..scheduler.node.handle import Node
    from .init_arguments import engine_config

    with process.starting:
        refuse_after_fork()
        if process.session is not None:
            return process.session
        node = Node.adopt(address)
        if node is None:
            return None
        session = _begin(node, config, leave=True)
        session.take_over()
    if engine_config(config) is not None:
        session.engine_known(timeout=PATIENCE_S)  # it is a session, whatever there is to be known
    return session


def _begin(node: Any, config: Config, leave: bool = False) -> Session:
    from ..core_hooks import Hooks

    try:
        process.session = _attach(node, _core.Client(node.fd, _core.ROLE_DRIVER, Hooks()), config)
    except BaseException:
        node.close(leave=leave)
        raise
    return process.session


def _attach(node: Any, client: Client, config: Config) -> Session:
    if config.address:
        config = replace(config, resources=client.resources().total, **sizes_of(client))
    from ..errors.reruns import Reruns

    session = Session(node, client, config)
    session.engine = node.engine
    node.link.on_lost(session.on_lost)
    node.link.add_listener(session.hear)
    node.link.add_listener(partial(_answer, session, Reruns()))
    front_end.current.session_started(session)
    if config.log_to_driver:
        from ..output import driver

        driver.start(session)
    return session


def _answer(session: Session, reruns: Reruns, message: Any) -> None:
    """What the local scheduler tells that takes more than the session to answer. Called in the link's thread."""
    from ..scheduler.ipc.messages import HoldersRequest, TaskRetried

    if isinstance(message, HoldersRequest):
        from ..observe import named_holders

        named_holders.hear(session, message)
    elif isinstance(message, TaskRetried) and reruns.admits(now := time.monotonic()):
        from ..observe.history import submission_of

        name, origin = submission_of(session.client, message.task)
        line = reruns.line(name, message.code, message.out_of_memory, message.attempt, message.most, now)
        session.tell("task_retried", line, origin)


def shutdown() -> None:
    """End this process's session, if there is one. In a worker: nothing, as the session is the driver's."""
    with process.starting:
        process.is_forked = False
        session = process.session
        if session is None or session.is_worker:
            return
        process.session = None
        session.close()


def leave() -> None:
    """At the end of this process: end its session, unless a detached actor lives, which goes on then."""
    session = process.session
    if session is None or session.is_worker or session.config.address or session.lost:
        return shutdown()
    detached = session.detached_actors()
    if not detached:
        return shutdown()
    print(
        f"cellmesh: the session goes on, with {detached_in_words(detached)}. The next run finds it again; `cellmesh "
        "stop "
        f"{session.node.session_id}` ends it.",
        file=sys.stderr,
    )
    process.session = None
    session.close(leave=True)


process.at_exit = leave
