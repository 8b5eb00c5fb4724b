"""Words of tasks are text, whatever they say: the page runs nothing of them and fetches nothing for them.

Each payload would set `window.top.hostile`, or ask a server of the test for something, if any part of the page took it
for HTML. There are 25 kinds and eight ways to break out of a place, which are 200. Of these every eighth is shown: each
kind once, each way out and each of the eight ways on which tasks put words on the screen three times or four.
CELLMESH_HOSTILE=1 shows all, each kind once by each way. The browser may begin a request that the page's policy then
stops; that is no leak, as only what arrives counts.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect
from support.waiting import wait_until
from ui.lab import Lab
from ui.panel import Panel

EVIL = "http://evil"  # stands for the test's server
RUN = "window.top.hostile=(window.top.hostile||0)+1"
KINDS = [
    f"<script>{RUN}</script>",
    f"<img src=x onerror='{RUN}'>",
    f"<img src='{EVIL}/img'>",
    f"<svg onload='{RUN}'><circle r=1></svg>",
    f"<svg><script>{RUN}</script></svg>",
    f"<svg><image href='{EVIL}/svg'/></svg>",
    f'<iframe src="javascript:{RUN}"></iframe>',
    f"<iframe src='{EVIL}/frame'></iframe>",
    f'<iframe srcdoc="<script>{RUN}</script>"></iframe>',
    f"<object data='{EVIL}/object'></object><embed src='{EVIL}/embed'>",
    f"<link rel=stylesheet href='{EVIL}/css'><style>@import '{EVIL}/import';</style>",
    f"<div style=\"background:url('{EVIL}/background')\">x</div>",
    f"<video src='{EVIL}/video' onerror='{RUN}'></video><audio src='{EVIL}/audio'></audio>",
    f"<details open ontoggle='{RUN}'><summary>x</summary></details>",
    f"<body onload='{RUN}'><input autofocus onfocus='{RUN}'>",
    f"<form action='{EVIL}/form'><button>x</button></form><script>document.forms[0].submit()</script>",
    f"<meta http-equiv=refresh content='0;url={EVIL}/refresh'><base href='{EVIL}/base/'>",
    f"<math><mtext><table><mglyph><style><img src=x onerror='{RUN}'>",
    f"\"><img src=x onerror='{RUN}'>",
    f"' onmouseover='{RUN}' x='",
    f"</pre></script></style></title></textarea><script>{RUN}</script>",
    f"![x]({EVIL}/markdown) [x](javascript:{RUN})",
    f"$\\href{{javascript:{RUN}}}{{x}}$ {{{{constructor.constructor('{RUN}')()}}}} ${{{RUN}}}",
    f"\x1b]8;;javascript:{RUN}\x07x\x1b]8;;\x07\x1b[31m<img src=x onerror='{RUN}'>\x1b[0m",
    f"\u202e<img src='{EVIL}/override'>\u2066\ufeff\x00\x08",
]
BEFORE = ["", '"/>', "'>", "--><!-->", "]]>", "</style></script></title></textarea></iframe>", "\n\n", "&lt;\u2028"]
PAYLOADS = [before + kind for before in BEFORE for kind in KINDS][:: int(os.environ.get("CELLMESH_HOSTILE", "8"))]
SETUP = f"""
import json, sys
import pandas as pd
from tqdm import tqdm
PAYLOADS = json.loads({json.dumps(json.dumps(PAYLOADS))}.replace({EVIL!r}, "@EVIL@"))

class Page:
    def __init__(self, html): self.html = html
    def _repr_html_(self): return self.html
    def __repr__(self): return self.html

def returns(text): return text
def prints(text): print(text); print(text, file=sys.stderr)
def contains(text): return {{text: [text, (text, {{text}})]}}
def tabulates(text): return pd.DataFrame({{text: [text, text]}}, index=[text, "b"])
def shows(text): return Page(text)
def fails(text): raise type(text.replace("\\0", ""), (ValueError,), {{}})(text)
def advances(text):
    for _ in tqdm(range(2), desc=text): pass

class Actor:
    def __init__(self, text): self.text = text
    def __repr__(self): return self.text
    def say(self): print("from an actor"); return self.text

FUNCTIONS = returns, prints, contains, tabulates, shows, fails, advances
"""
SUBMIT = """
refs, actors = [], []
for number, text in enumerate(PAYLOADS):
    way = number % 8  # and the kind is number % 25, so they all meet
    if way < 7:
        refs.append(
            cm.remote(FUNCTIONS[way]).options(name=text.replace("\\0", ""), num_cpus=0.1, max_retries=0).remote(text)
        )
        continue
    named = type("Actor", (Actor,), {"__qualname__": text.replace("\\0", "")})
    actors.append(cm.remote(named).options(name=text.replace("\\0", ""), num_cpus=0).remote(text))
    refs.append(actors[-1].say.remote())
    if len(actors) > 4:
        cm.wait(refs, num_returns=len(refs))
        actors.clear()
cm.wait(refs, num_returns=len(refs))
len(refs)
"""
SHOW = """
from IPython.display import display
for ref in refs[::3]:
    display(ref)
for ref in refs:
    try:
        cm.get(ref)
    except Exception as error:
        last = error
cm.state.list_tasks()
"""


@pytest.fixture
def evil() -> Iterator[tuple[str, list[str]]]:
    """A server elsewhere: its address, and the paths it was asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *args) -> None:
            """No lines on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


@pytest.mark.timeout(240)
@pytest.mark.own_page
def test_text_from_tasks_is_text(lab: Lab, evil: tuple[str, list[str]]) -> None:
    page, (address, asked), dialogs = lab.page, evil, []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    lab.open(
        lab.write(
            "hostile.ipynb",
            [
                "%load_ext cellmesh\nimport cellmesh as cm\ncm.init(num_cpus=2);",
                SETUP.replace("@EVIL@", address),
                SUBMIT,
                SHOW,
                "raise last",
                "%futures",
                "%graph",
            ],
        )
    )
    for index in range(7):
        lab.run_cell(index)
    assert str(len(PAYLOADS)) in lab.output(2).splitlines()  # what tasks print may come below it
    panel = Panel(page)
    panel.expect_count("failed", len(PAYLOADS[5::8]))
    panel.list()
    look_at_all(panel)
    for view in ("Timeline", "Groups", "Memory", "Machine", "Logs", "Tasks"):
        panel.root.get_by_role("tab", name=view).click()
        lab.settle()
    panel.click_a_box()
    expect(panel.card).to_be_visible()
    page.evaluate("() => document.querySelectorAll('.jp-Notebook .jp-Cell').forEach(cell => cell.scrollIntoView())")
    lab.settle()

    assert page.evaluate("() => window.hostile") is None
    assert not dialogs and not asked
    # The traps work: what is put into the page as HTML is noticed.
    page.evaluate(
        "html => document.body.insertAdjacentHTML('beforeend', html)", KINDS[1] + KINDS[2].replace(EVIL, address)
    )
    wait_until(lambda: page.evaluate("() => window.hostile") == 1 and asked == ["/img"], what="the traps close")


def look_at_all(panel: Panel) -> None:
    """Open the card of every row of every table, by keyboard."""
    for table in ("Tasks", "Objects", "Actors", "Workers"):
        panel.root.get_by_role("radiogroup", name="Table").get_by_role("radio", name=table).click()
        grid = panel.root.get_by_role("grid")
        n_rows = int(grid.get_attribute("aria-rowcount") or 0)
        assert n_rows, f"no {table}"
        panel.list().first.click()
        for _ in range(n_rows - 1):
            grid.press("ArrowDown")
        expect(panel.list().last).to_have_attribute("aria-selected", "true")
