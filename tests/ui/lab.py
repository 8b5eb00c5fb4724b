"""A real JupyterLab and a real Chromium, for the panel's tests, the screenshots and the panel's benchmark.

`LabServer` starts JupyterLab on a free port with every configuration folder in a scratch place. `Lab` drives one page
of it through the application object that `LabApp.expose_app_in_browser` gives. What the page knows (a cell has been
executed, a kernel is ready) is a better thing to wait for than what it draws.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Error, Locator, Page, sync_playwright
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
QUIET = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    }
}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class LabServer:
    """JupyterLab as a child process; `root` is the folder it serves, `scratch` keeps everything else it writes.
    `prefix` comes before every path, as behind JupyterHub. `command`: what stands before the command, and runs it."""

    def __init__(
        self,
        root: Path,
        scratch: Path,
        settings: dict[str, dict[str, Any]] | None = None,
        prefix: str = "",
        command: Sequence[str] = (),
    ) -> None:
        self.root, self.scratch = root, scratch
        port = free_port()
        self.url = f"http://127.0.0.1:{port}{prefix}"
        folders = {
            "HOME": scratch / "home",
            "JUPYTER_CONFIG_DIR": scratch / "config",
            "JUPYTER_DATA_DIR": scratch / "data",
            "JUPYTER_RUNTIME_DIR": scratch / "run",
            "IPYTHONDIR": scratch / "ipython",
        }
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        overrides = folders["JUPYTER_CONFIG_DIR"] / "labconfig/default_setting_overrides.json"
        overrides.parent.mkdir(exist_ok=True)
        overrides.write_text(json.dumps({**QUIET, **(settings or {})}))
        self.log = open(scratch / "jupyter.log", "ab")
        self.process = subprocess.Popen(
            [
                *command,
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--ip=127.0.0.1",
                f"--port={port}",
                f"--ServerApp.base_url={prefix}/",
                "--ServerApp.port_retries=0",
                "--IdentityProvider.token=",
                "--ServerApp.password=",
                "--ServerApp.disable_check_xsrf=True",
                "--ServerApp.allow_root=True",
                "--LabApp.extension_manager=readonly",
                "--LabApp.expose_app_in_browser=True",
                f"--ServerApp.root_dir={root}",
            ],
            cwd=root,
            env={**os.environ, **{k: str(v) for k, v in folders.items()}},
            stdout=self.log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        wait_until(self._answers, START_S, "JupyterLab answers")

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"JupyterLab ended at once:\n{(self.scratch / 'jupyter.log').read_text()[-3000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/api/status", timeout=2) as answer:
                return answer.status == 200
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def end_sessions(self) -> None:
        """End every notebook's kernel. The server knows them all; a page may have missed one that has just begun."""
        with urllib.request.urlopen(f"{self.url}/api/sessions") as answer:
            sessions = json.load(answer)
        for session in sessions:
            request = urllib.request.Request(f"{self.url}/api/sessions/{session['id']}", method="DELETE")
            urllib.request.urlopen(request).close()

    def close(self) -> None:
        """Ask the server to stop, which ends its kernels; what does not follow in time is killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium of the distribution."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import browser
    finally:
        sys.path.pop(0)
    path = browser.find()
    if path is None:
        raise AssertionError("no Chromium found: `make browser` installs one")
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        try:
            yield instance
        finally:
            instance.close()


class Lab:
    """One page with JupyterLab in it, and the words that tests use for it.

    Attributes
    ----------
    is_clean : bool
        The page has JupyterLab without a document, so that the first notebook needs no loading of it.
    workspace : str
        Where JupyterLab keeps what is open in the page; "" is its default. Two pages with one overwrite each other's.
    """

    def __init__(self, server: LabServer, page: Page, is_clean: bool = False, workspace: str = "") -> None:
        self.server, self.page, self.is_clean, self.workspace = server, page, is_clean, workspace
        self.errors: list[str] = []
        self.restore_theme = False  # the choice is kept by the server, for the next page too
        page.on("pageerror", self._note_error)

    def write(self, name: str, cells: list[str]) -> str:
        """A notebook file with these code cells; returns its name."""
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
        notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
        (self.server.root / name).write_text(nbformat.writes(notebook))
        return name

    def open(self, name: str) -> None:
        """Open a notebook and wait for its kernel: alone in a page that is loaded, unless that is clean."""
        if self.is_clean:
            self.is_clean = False
            self.page.evaluate(
                """async path => {
                const { commands, shell } = window.jupyterapp;
                const launchers = [...shell.widgets('main')];
                await commands.execute('docmanager:open', { path, factory: 'Notebook' });
                launchers.forEach(launcher => launcher.dispose());
            }""",
                name,
            )
        else:
            workspace = self.workspace and f"/workspaces/{self.workspace}"
            self.page.goto(f"{self.server.url}/lab{workspace}/tree/{name}?reset")
        self.take_current()

    def take_current(self) -> None:
        """Let the words below mean the notebook in front; wait for its kernel."""
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell.currentWidget?.sessionContext", timeout=START_S * 1000
        )
        self.page.evaluate("""async () => {
            const widget = window.notebookPanel = window.jupyterapp.shell.currentWidget;
            await widget.context.ready; await widget.sessionContext.ready;
            await widget.sessionContext.session.kernel.info;
        }""")

    def command(self, name: str, **arguments: Any) -> None:
        """Execute a command of JupyterLab and wait until it is done."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)", [name, arguments]
        )

    def start_cell(self, index: int) -> None:
        """Execute a cell without waiting for its end; `finish_cell` waits."""
        self.page.evaluate(
            """index => {
            const notebook = window.notebookPanel.content;
            window.jupyterapp.shell.activateById(window.notebookPanel.id);
            notebook.activeCellIndex = index;
            notebook.deselectAll();
            (window.cellRuns ??= {})[index] = window.jupyterapp.commands.execute('notebook:run-cell').then(() => true);
        }""",
            index,
        )

    def finish_cell(self, index: int) -> None:
        self.page.evaluate("index => window.cellRuns[index]", index)

    def run_cell(self, index: int) -> str:
        """Execute a cell, wait for its end, return the text of its output."""
        self.start_cell(index)
        self.finish_cell(index)
        return self.output(index)

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")

    def output(self, index: int) -> str:
        """The text of a cell's output as the notebook's model has it."""
        return self.page.evaluate(
            """index => {
            const text = value => Array.isArray(value) ? value.join('') : String(value ?? '');
            const outputs = window.notebookPanel.content.widgets[index].model.sharedModel.outputs;
            return outputs.map(output => text(output.text ?? output.evalue ?? output.data?.['text/plain'])).join('\\n');
        }""",
            index,
        )

    def _note_error(self, error: Error) -> None:
        # JupyterLab's own: it asks a connecting kernel for a subshell and gives up the question when the page or the
        # connection goes first; and its debugger asks the kernel that a notebook had before.
        text, stack = str(error), error.stack or ""
        is_debugger = text == "Kernel is dead" and ".requestDebug " in stack
        if not (is_debugger or text.startswith("Error: Canceled future for create_subshell_request")):
            self.errors.append(text)

    def errors_of(self, index: int) -> str:
        """The names of the exceptions in a cell's output."""
        return self.page.evaluate(
            """index => {
            const outputs = window.notebookPanel.content.widgets[index].model.sharedModel.outputs;
            return outputs.filter(output => output.output_type === 'error').map(output => output.ename).join(' ');
        }""",
            index,
        )

    def cell(self, index: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def interrupt(self) -> None:
        self.page.evaluate("() => window.notebookPanel.sessionContext.session.kernel.interrupt()")

    def restart_kernel(self) -> None:
        self.page.evaluate("""async () => {
            const { session } = window.notebookPanel.sessionContext;
            await session.kernel.restart(); await session.kernel.info;
        }""")

    def theme(self, name: str) -> None:
        """Switch to the light or the dark theme and wait until the page wears it."""
        self.command("apputils:change-theme", theme=THEMES[name])
        self.page.wait_for_function(
            "wanted => document.body.dataset.jpThemeName === wanted && !document.getElementById('jupyterlab-splash')",
            arg=THEMES[name],
        )
        self.restore_theme = name != "light"

    def settle(self) -> None:
        """Wait until two pictures in a row are alike: animations have come to rest."""
        pictures = [b""]

        def at_rest() -> bool:
            pictures.append(self.page.screenshot())
            return pictures[-1] == pictures[-2]

        wait_until(at_rest, 10.0, "a page at rest")

    def close(self) -> None:
        """End the page's kernels and undo its theme, so that the next test starts from nothing."""
        if self.restore_theme:
            self.theme("light")
        self.page.remove_listener("pageerror", self._note_error)  # what asks a kernel meanwhile hears that it is dead
        self.page.evaluate(
            "() => [...(window.jupyterapp?.shell.widgets('main') ?? [])].forEach(widget => widget.dispose())"
        )
        self.server.end_sessions()

    def clean(self) -> bool:
        """Take away all that a test has left in the page, after `close`; whether it can be used for another one."""
        self.page.mouse.move(0, 0)
        return self.page.evaluate("""async () => {
            const app = window.jupyterapp;
            if (!app) { return false; }
            const { kernels, sessions } = app.serviceManager;
            await Promise.all([sessions.refreshRunning(), kernels.refreshRunning()]);
            sessionStorage.clear();
            delete window.cellRuns;
            delete window.notebookPanel;
            return [...sessions.running()].length === 0
                && document.querySelector('.jp-Dialog, .cm-panel, .jp-NotebookPanel') === null;
        }""")
