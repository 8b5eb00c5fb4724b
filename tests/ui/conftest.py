"""Fixtures for tests of the real panel: one JupyterLab and one Chromium a run, a fresh page a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from ui.lab import Lab, LabServer, chromium

ARTIFACTS = Path(__file__).parent / "artifacts"


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as instance:
        yield instance


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    instance = LabServer(tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter"))
    yield instance
    instance.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, server: LabServer, browser: Browser) -> Iterator[Lab]:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    instance = Lab(server, page)
    yield instance
    if request.node.stash.get(FAILED, False):  # a picture says what an assertion does not
        ARTIFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTIFACTS / f"{request.node.name}.png")
    instance.close()
    page.close()
    assert not instance.errors, f"errors in the page: {instance.errors}"


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.may_keep("threads", "playwright's event loop keeps its executor"))
            item.add_marker(pytest.mark.may_keep("descriptors", "pipes to the browser"))
