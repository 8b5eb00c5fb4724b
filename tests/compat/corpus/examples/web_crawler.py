"""A crawler over pages in memory: links are followed by tasks, an actor knows what was seen."""
import re

import ray

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
PAGES = {
    "/": "start <a href='/a'>a</a> <a href='/b'>b</a>",
    "/a": "<a href='/b'>b</a> <a href='/c'>c</a>",
    "/b": "<a href='/'>home</a>",
    "/c": "<a href='/lost'>lost</a> <a href='/a'>a</a>",
}


@ray.remote
class Seen:
    def __init__(self):
        self.pages = set()

    def first(self, page):
        new = page not in self.pages
        self.pages.add(page)
        return new


@ray.remote
def crawl(page, seen):
    if not ray.get(seen.first.remote(page)):
        return {}
    if page not in PAGES:
        raise LookupError(page)
    links = re.findall(r"href='([^']+)'", PAGES[page])
    found = {page: len(links)}
    for ref in [crawl.remote(link, seen) for link in links]:
        try:
            found.update(ray.get(ref))
        except LookupError as error:
            found[f"{error.cause.args[0]}"] = "missing"
    return found


print(sorted(ray.get(crawl.remote("/", Seen.remote())).items()))
