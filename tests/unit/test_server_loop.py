"""The local scheduler's loop: events reach those who waited for them."""
from __future__ import annotations

import os
import selectors

from cellmesh.scheduler.local_scheduler.server import call_handlers


def test_an_event_is_not_for_who_got_its_number_meanwhile() -> None:
    selector, pairs, called = selectors.DefaultSelector(), [os.pipe() for _ in range(2)], []

    def replaces_the_other(fd: int) -> None:
        called.append("first")
        (other,) = (pair[0] for pair in pairs if pair[0] != fd)
        selector.unregister(other)
        os.close(other)
        os.dup2(fd, other)  # something new has the number now
        selector.register(other, selectors.EVENT_READ, lambda fd: called.append("new"))
    for reader, writer in pairs:
        os.write(writer, b"x")
        selector.register(reader, selectors.EVENT_READ, lambda fd: replaces_the_other(fd))
    call_handlers(selector, 0)
    assert called == ["first"]
    selector.close()
    for fd in (fd for pair in pairs for fd in pair):
        os.close(fd)


def test_a_handler_that_stays_meanwhile_is_called() -> None:
    selector, (reader, writer), called = selectors.DefaultSelector(), os.pipe(), []
    os.write(writer, b"x")
    selector.register(reader, selectors.EVENT_READ, called.append)
    call_handlers(selector, 0)
    assert called == [reader]
    selector.close()
    os.close(reader)
    os.close(writer)
