"""What the whole runtime costs, seen from /proc: the CPU time, memory and number of every process
that belongs to this benchmark run (the driver, its daemons and workers), and of the rest of the machine.

A process belongs to the run if it descends from the driver, shares its session, or carries the run's
marker in its environment (so daemons that detach themselves are counted too)."""

import os
import time

TICK = os.sysconf("SC_CLK_TCK")
NCPU = os.cpu_count() or 1
MARKER = "BENCH_RUN_MARKER"
_marked: dict[tuple[int, int], bool] = {}


def new_marker() -> str:
    return f"{os.getpid()}-{os.urandom(4).hex()}"


def set_marker() -> None:
    """Call once, before the runtime starts: children inherit it."""
    os.environ.setdefault(MARKER, new_marker())


def carriers(marker: str) -> list[int]:
    """The processes, whoever their parent is now, that were started with this marker in their environment."""
    want, out = f"{MARKER}={marker}".encode(), []
    for n in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{n}/environ", "rb") as f:
                if want in f.read().split(b"\0"):
                    out.append(int(n))
        except OSError:
            pass
    return out


def _stat(pid: int):
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            s = f.read().decode("utf-8", "replace")
    except OSError:
        return None
    comm = s[s.index("(") + 1 : s.rindex(")")]
    r = s[s.rindex(")") + 2 :].split()
    # r[0] is field 3 (state): ppid 4, session 6, utime 14 .. cstime 17, threads 20, start time 22
    return {
        "pid": pid,
        "comm": comm,
        "ppid": int(r[1]),
        "sid": int(r[3]),
        "own": (int(r[11]) + int(r[12])) / TICK,
        "reaped": (int(r[13]) + int(r[14])) / TICK,
        "threads": int(r[17]),
        "start": int(r[19]),
        "state": r[0],
    }


def _carries_marker(p) -> bool:
    key = (p["pid"], p["start"])
    if key not in _marked:
        want = f"{MARKER}={os.environ.get(MARKER, '')}".encode()
        try:
            with open(f"/proc/{p['pid']}/environ", "rb") as f:
                _marked[key] = want in f.read().split(b"\0")
        except OSError:
            _marked[key] = False
    return _marked[key]


def tree() -> list[dict]:
    """Every process of the run, zombies left out."""
    me, sid = os.getpid(), os.getsid(0)
    ps = {p["pid"]: p for n in os.listdir("/proc") if n.isdigit() and (p := _stat(int(n)))}
    kids: dict[int, list[int]] = {}
    for p in ps.values():
        kids.setdefault(p["ppid"], []).append(p["pid"])
    mine, todo = set(), [me]
    while todo:
        x = todo.pop()
        if x not in mine:
            mine.add(x)
            todo += kids.get(x, [])
    own_session = sid == me
    for p in ps.values():
        same_session = own_session and p["sid"] == sid
        if p["pid"] not in mine and (same_session or (MARKER in os.environ and _carries_marker(p))):
            mine.add(p["pid"])
    return [ps[x] for x in mine if x in ps and ps[x]["state"] != "Z"]


def label(p: dict) -> str:
    """A name that groups like processes: what it is, not which one."""
    if p["pid"] == os.getpid():
        return "driver"
    c = p["comm"]
    if c.startswith("ray::"):
        return c[5:] if "Agent" in c or "RuntimeEnv" in c or "Dashboard" in c else "workers"
    if c.startswith("python"):
        try:
            with open(f"/proc/{p['pid']}/cmdline", "rb") as f:
                a = [x for x in f.read().decode("utf-8", "replace").split("\0") if x]
        except OSError:
            a = []
        for i, x in enumerate(a[1:], 1):
            if x == "-m" and i + 1 < len(a):
                return a[i + 1]
            if x == "-c":
                return "python -c"
            if not x.startswith("-"):
                return os.path.basename(x)
    return c


class Usage:
    """CPU seconds by process between two moments, and what the rest of the machine used meanwhile."""

    def __init__(self) -> None:
        self.t = {p["pid"]: (label(p), p["own"], p["reaped"]) for p in tree()}
        self.busy = self._busy()

    @staticmethod
    def _busy() -> float:
        with open("/proc/stat") as f:
            v = [int(x) for x in f.readline().split()[1:9]]
        return (sum(v) - v[3] - v[4]) / TICK  # all but idle and iowait (steal counts as foreign)

    def since(self, before: "Usage") -> tuple[dict[str, float], float]:
        by: dict[str, float] = {}
        for pid, (name, own, reaped) in self.t.items():
            _, o0, r0 = before.t.get(pid, (name, 0.0, 0.0))
            if (d := own - o0 + reaped - r0) > 0:
                by[name] = by.get(name, 0.0) + d
        return by, max(0.0, self.busy - before.busy - sum(by.values()))


def wait_quiet(share: float, limit: float) -> float:
    """Waits while processes outside the run use more than `share` of the machine, `limit` seconds at most.

    Returns the seconds waited.
    """
    t0 = time.perf_counter()
    while (t := time.perf_counter() - t0) < limit:
        u, t1 = Usage(), time.perf_counter()
        time.sleep(0.25)
        if Usage().since(u)[1] / ((time.perf_counter() - t1) * NCPU) <= share:
            break
    return t


def _field(path: str, names: tuple[str, ...]) -> int:
    n = 0
    try:
        with open(path) as f:
            for line in f:
                if line.split(":")[0] in names:
                    n += int(line.split()[1]) * 1024
    except OSError:
        pass
    return n


def rss_anon(pid: int | str = "self") -> int:
    return _field(f"/proc/{pid}/status", ("RssAnon",))


def tree_anon() -> int:
    return sum(rss_anon(p["pid"]) for p in tree())


def footprint() -> dict:
    ps = tree()
    by: dict[str, float] = {}
    for p in ps:
        b = _field(f"/proc/{p['pid']}/smaps_rollup", ("Pss",))
        by[label(p)] = round(by.get(label(p), 0) + b / 1e6, 1)
    return {
        "processes": len(ps),
        "threads": sum(p["threads"] for p in ps),
        "pss_mb": round(sum(by.values()), 1),
        "pss_mb_by": by,
    }
