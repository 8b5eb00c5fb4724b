"""register_serializer: a class that cannot be pickled is sent in the user's way, until it is deregistered."""
import threading

import ray
from ray.util import deregister_serializer, register_serializer

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)


class Connection:
    def __init__(self, host):
        self.host, self.lock = host, threading.Lock()


def attempt(what, call):
    try:
        print(what, call())
    except Exception as error:
        print(what, isinstance(error, TypeError))


@ray.remote
def host(connection):
    return type(connection).__name__, connection.host


attempt("before", lambda: ray.put(Connection("db")))
register_serializer(Connection, serializer=lambda c: c.host, deserializer=lambda h: Connection(h + " (again)"))
attempt("put", lambda: ray.get(ray.put(Connection("db"))).host)
attempt("argument", lambda: ray.get(host.remote(Connection("db"))))
attempt("inside", lambda: ray.get(ray.put([Connection("a"), {"k": Connection("b")}]))[1]["k"].host)
deregister_serializer(Connection)
attempt("after", lambda: ray.put(Connection("db")))
attempt("without functions", lambda: register_serializer(Connection))
