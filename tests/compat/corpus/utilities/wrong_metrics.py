"""Mistakes with metrics of one's own: the type of each error."""
import ray
from ray.util.metrics import Counter, Gauge, Histogram

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)


def attempt(what, function):
    try:
        print(what, function())
    except Exception as error:
        print(what, [kind.__name__ for kind in (TypeError, ValueError) if isinstance(error, kind)][0])


counter = Counter("asked", description="Requests.", tag_keys=("route",))
attempt("without its tag", lambda: counter.inc(1))
attempt("with its tag", lambda: counter.inc(1, tags={"route": "/"}))
attempt("a tag it lacks", lambda: counter.inc(1, tags={"route": "/", "other": "x"}))
attempt("a tag that is no text", lambda: counter.inc(1, tags={"route": 1}))
attempt("nothing more", lambda: counter.inc(0, tags={"route": "/"}))
attempt("less", lambda: counter.inc(-1, tags={"route": "/"}))
attempt("default tags", lambda: counter.set_default_tags({"route": "/home"}) is counter)
attempt("with defaults", lambda: counter.inc(2))
attempt("default tags it lacks", lambda: counter.set_default_tags({"other": "x"}))
attempt("default no text", lambda: counter.set_default_tags({"route": 1}))
attempt("no name", lambda: Gauge(""))
attempt("name no text", lambda: Gauge(7))
attempt("tag keys a string", lambda: Gauge("level", tag_keys="route"))
attempt("tag keys of numbers", lambda: Gauge("level2", tag_keys=(1,)))
attempt("no boundaries", lambda: Histogram("times", boundaries=[]).info["name"])
attempt("boundaries below 0", lambda: Histogram("times2", boundaries=[-1, 2]).info["name"])
attempt("gauge", lambda: Gauge("level3").set(3))
attempt("gauge of text", lambda: Gauge("level4").set("3"))
print(sorted(counter.info))
