"""The floor of a Python design: the least that a driver and its workers must do for one task, in Ray's shape.

No scheduler, no retries, no reference counting across processes, no object store: only an id, a ref, pickled
arguments, one message to a worker chosen by its queue length, one message back. What these reach is what the
transport and Python leave attainable; a real runtime pays for its features on top. Three transports:
floor_zmq (sockets of the main thread), floor_thread (a Python I/O thread owns the sockets, as a runtime that
must react while the user's cell runs needs), floor_shm (shared-memory rings and futexes, in C), and
floor_sched (all tasks pass through a scheduler process in Python)."""

import os
import pickle
import sys
import time
from collections import deque

import cloudpickle
import msgspec
from _shape import CANCEL, NESTED, PUT, Handle, remote_for

UNSUPPORTED = (
    CANCEL
    | NESTED
    | PUT
    | {
        "get_actor_by_name",
        "kill_actor_restart",
        "kill_worker_retry",
        "actor_concurrent",
        "actor_create",
        "tasks_1mb",
        "task_result_100mb",
        "task_arg_100mb_value",
        "async_actor_sync",
        "async_actor_async",
        "async_actor_async_arg",
        "async_actor_naps",
    }
)


class Task(msgspec.Struct, array_like=True, gc=False):
    id: bytes
    fn: bytes  # function id; its code goes along the first time
    args: bytes
    code: bytes
    actor: bytes
    method: str
    owner: bytes
    num_returns: int


class Done(msgspec.Struct, array_like=True, gc=False):
    id: bytes
    ok: bool
    value: bytes


enc = msgspec.msgpack.Encoder()
dec_task, dec_done = msgspec.msgpack.Decoder(Task), msgspec.msgpack.Decoder(Done)
EMPTY = pickle.dumps(((), {}), 5)


def execute(raw, fns, actors):
    t = dec_task.decode(raw)
    try:
        if t.code and t.fn not in fns:
            fns[t.fn] = cloudpickle.loads(t.code)
        a, k = ((), {}) if t.args == EMPTY else pickle.loads(t.args)
        if not t.actor:
            v = fns[t.fn](*a, **k)
        elif t.method:
            v = getattr(actors[t.actor], t.method)(*a, **k)
        else:
            actors[t.actor] = fns[t.fn](*a, **k)
            v = None
        return enc.encode(Done(t.id, True, pickle.dumps(v, 5)))
    except Exception as e:
        return enc.encode(Done(t.id, False, cloudpickle.dumps(e)))


class Ref:
    __slots__ = ("__weakref__", "id", "w")

    def __init__(self, i, w):
        self.id, self.w = i, w

    def __del__(self):
        if d := B.done:
            d.pop(self.id, None)


class B:
    """The driver's state: a transport gives send(worker, bytes) and pump(block), which calls finished(bytes)."""

    done, n, out, sent, codes, send, pump, stop, order = {}, 0, [], [], {}, None, None, None, deque()


def finished(raw, w):
    d = dec_done.decode(raw)
    B.done[d.id] = d
    B.out[w] -= 1


def submit(fn, code, a, k, actor=b"", method="", worker=None):
    B.n += 1
    i = B.n.to_bytes(16, "little")
    if a or k:
        if any(type(x) is Ref for x in a):
            a = tuple(get(x) if type(x) is Ref else x for x in a)
        args = pickle.dumps((a, k), 5)
    else:
        args = EMPTY
    out = B.out
    w = worker if worker is not None else min(range(len(out)), key=out.__getitem__)
    out[w] += 1
    if fn in B.sent[w]:
        code = b""
    else:
        B.sent[w].add(fn)
    B.send(w, enc.encode(Task(i, fn, args, code, actor, method, b"owner-0123456789", 1)))
    return Ref(i, w)


def _code(f):
    if f not in B.codes:
        B.codes[f] = (os.urandom(16), cloudpickle.dumps(f))
    return B.codes[f]


def _call(f, a, k):
    fn, code = B.codes.get(f) or _code(f)
    return submit(fn, code, a, k)


class _Actor(Handle):
    def __init__(self, cls, a, k):
        fn, code = _code(cls)
        self._id, self._w = os.urandom(16), B.n % len(B.out)
        get(submit(fn, code, a, k, self._id, "", self._w))

    def _call(self, name, a, k):
        return submit(b"", b"", a, k, self._id, name, self._w)


remote = remote_for(_call, _Actor)


def get(refs, timeout=None):
    if isinstance(refs, list):
        return [get(r) for r in refs]
    done, i = B.done, refs.id
    while i not in done:
        B.pump()
    d = done[i]
    v = pickle.loads(d.value)
    if not d.ok:
        raise v
    return v


def wait(refs, num_returns=1, timeout=None, fetch_local=True):
    done = B.done
    while True:
        ready = [r for r in refs if r.id in done]
        if len(ready) >= num_returns:
            break
        B.pump()
    ready = ready[:num_returns]
    s = set(ready)
    return ready, [r for r in refs if r not in s]


def kill(actor):
    pass


def spawn(n, body):
    """Forks n workers that run body(index)."""
    pids = []
    for w in range(n):
        pid = os.fork()
        if not pid:
            try:
                B.done = {}
                body(w)
            except BaseException as e:
                print("worker:", repr(e), file=sys.stderr)
            os._exit(0)
        pids.append(pid)
    B.out, B.sent = [0] * n, [set() for _ in range(n)]
    return pids


def reap(pids):
    end = time.time() + 3
    for p in pids:
        while os.waitpid(p, os.WNOHANG) == (0, 0):
            if time.time() > end:
                os.kill(p, 9)
                os.waitpid(p, 0)
                break
            time.sleep(0.01)


API = dict(remote=remote, get=get, wait=wait, kill=kill, UNSUPPORTED=UNSUPPORTED)
