"""As floor_zmq, but a Python thread owns the sockets; the main thread hands it messages in a deque and is woken by
a condition."""

import os
import tempfile
import threading
from collections import deque

import _floor as f
import zmq
from floor_zmq_api import _body

globals().update(f.API)
_box = {}


def init(num_cpus=2, **_):
    d = tempfile.mkdtemp()
    _box["pids"] = f.spawn(num_cpus, lambda w: _body(f"ipc://{d}/{w}"))
    out, wake = deque(), os.eventfd(0, os.EFD_NONBLOCK)
    idle, cond = [True], threading.Condition()

    def run():
        ctx = zmq.Context()
        ss, po = [], zmq.Poller()
        for w in range(num_cpus):
            s = ctx.socket(zmq.PAIR)
            s.linger = 0
            s.set_hwm(0)
            s.bind(f"ipc://{d}/{w}")
            po.register(s, zmq.POLLIN)
            ss.append(s)
        index = {s: w for w, s in enumerate(ss)}
        po.register(wake, zmq.POLLIN)
        while True:
            idle[0] = True
            ev = po.poll() if not out else ()
            idle[0] = False
            got = False
            for s, _ in ev:
                if s == wake:
                    os.eventfd_read(wake)
                    continue
                w = index[s]
                try:
                    for _ in range(64):
                        f.finished(s.recv(zmq.NOBLOCK), w)
                        got = True
                except zmq.Again:
                    pass
            while out:
                w, m = out.popleft()
                if m is None:
                    for s in ss:
                        s.send(b"q")
                    ctx.destroy(linger=1000)
                    return
                ss[w].send(m)
            if got:
                with cond:
                    cond.notify_all()

    def send(w, m):
        out.append((w, m))
        if idle[0]:
            os.eventfd_write(wake, 1)

    def pump():
        with cond:
            cond.wait(0.001)

    f.B.send, f.B.pump = send, pump
    _box["thread"], _box["send"] = threading.Thread(target=run, daemon=True), send
    _box["thread"].start()


def shutdown():
    _box["send"](0, None)
    _box["thread"].join(3)
    f.reap(_box["pids"])
