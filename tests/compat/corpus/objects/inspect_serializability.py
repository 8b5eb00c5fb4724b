"""inspect_serializability: which part of an object cannot be sent."""
import contextlib
import io
import threading

import ray
from ray.util import inspect_serializability

lock = threading.Lock()


def guarded():
    with lock:
        return 1


class Holder:
    def __init__(self):
        self.fine, self.lock = 1, lock


with contextlib.redirect_stdout(io.StringIO()) as report:
    for what in guarded, Holder(), [1, 2], lambda: 3:
        serializable, failures = inspect_serializability(what, name="it")
        report.write(f"verdict {serializable} {len(failures) > 0}\n")
print("\n".join(line for line in report.getvalue().splitlines() if line.startswith("verdict")))
print(ray.is_initialized())
