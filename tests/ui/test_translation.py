"""The panel in German and Japanese, by way of JupyterLab's own translation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from ui.cells import ADD, TREE, start
from ui.lab import Lab, LabServer
from ui.panel import PATIENCE_MS, Panel

PLURALS = {"de_DE": "nplurals=2; plural=(n != 1);", "ja_JP": "nplurals=1; plural=0;"}


def install_language_pack(folder: Path, language: str) -> None:
    """What makes JupyterLab offer a language: a package like its own language packs, with nothing in it."""
    name = f"pack_{language}"
    catalogue = folder / name / f"locale/{language}/LC_MESSAGES/jupyterlab.json"
    catalogue.parent.mkdir(parents=True)
    (folder / name / "__init__.py").touch()
    catalogue.write_text(
        json.dumps(
            {
                "": {
                    "domain": "jupyterlab",
                    "language": language.replace("_", "-"),
                    "plural_forms": PLURALS[language],
                    "version": "1",
                }
            }
        )
    )
    about = folder / f"{name}-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[jupyterlab.languagepack]\n{language} = {name}\n")


@pytest.fixture
def translated(
    request: pytest.FixtureRequest, tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lab]:
    if not any(each.name == "cellmesh" for each in entry_points(group="jupyterlab.locale")):
        pytest.skip("cellmesh is imported from a developer tree here, where JupyterLab does not find its catalogues")
    install_language_pack(tmp_path / "packs", request.param)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packs"), prepend=":")
    (tmp_path / "notebooks").mkdir()
    server = LabServer(
        tmp_path / "notebooks",
        tmp_path / "jupyter",
        {"@jupyterlab/translation-extension:plugin": {"locale": request.param}},
    )
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    lab = Lab(server, page)
    yield lab
    lab.close()
    page.close()
    server.close()
    assert not lab.errors


@pytest.mark.parametrize(
    ("translated", "view", "headline", "finished", "setting"),
    [
        ("de_DE", "Zeitachse", "von 7 Tasks", "fertig", "Das Panel von selbst öffnen"),
        ("ja_JP", "タイムライン", "/ タスク 7", "完了", "パネルを自動的に開く"),
    ],
    indirect=["translated"],
)
def test_the_panel_speaks_the_readers_language(
    translated: Lab, view: str, headline: str, finished: str, setting: str
) -> None:
    start(translated, ADD, TREE, "%graph")
    for index in (1, 2, 3):
        translated.run_cell(index)
    for panel in (Panel(translated.page), Panel(translated.page, within=".jp-OutputArea")):
        expect(panel.root.locator(".cm-of")).to_have_text(headline, timeout=PATIENCE_MS)
        expect(panel.root.locator(".cm-chip").first).to_contain_text(finished)
        panel.root.get_by_role("tab", name=view).click()
        expect(panel.root.locator(".cm-lanes")).to_be_visible()
    translated.command("settingeditor:open", query="cellmesh")
    expect(translated.page.locator(".jp-SettingsPanel")).to_contain_text(setting, timeout=PATIENCE_MS)
