"""Fixtures for tests of the real panel: one JupyterLab and one Chromium a run.

Loading JupyterLab takes 4 s of CPU, so its page goes from test to test, without a document, panel or kernel, as a
reader's page does from notebook to notebook. A test that does more to it than open documents is marked `own_page`, and
after one that has failed there is a new page, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize
from support.shared.anew import has_failed
from ui.lab import Lab, LabServer, chromium

ARTIFACTS = Path(__file__).parent / "artifacts"
VIEWPORT: ViewportSize = {"width": 1400, "height": 900}


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as instance:
        yield instance


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    instance = LabServer(tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter"))
    yield instance
    instance.close()


@pytest.fixture(scope="session")
def clean_pages() -> list[Page]:
    """The page that the last test has left, if it may serve the next one."""
    return []


@pytest.fixture
def lab(request: pytest.FixtureRequest, server: LabServer, browser: Browser, clean_pages: list[Page]) -> Iterator[Lab]:
    is_own = request.node.get_closest_marker("own_page") is not None
    is_clean = bool(clean_pages) and not is_own
    motion: Literal["no-preference", "reduce"] = "no-preference" if is_own else "reduce"
    page = clean_pages.pop() if is_clean else browser.new_page(viewport=VIEWPORT, reduced_motion=motion)
    instance = Lab(server, page, is_clean, "own" if is_own else "")
    yield instance
    failed = has_failed(request.node)
    if failed:  # a picture says what an assertion does not
        ARTIFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTIFACTS / f"{request.node.name}.png")
    instance.close()
    if not failed and not is_own and not instance.errors and instance.clean():
        page.set_viewport_size(VIEWPORT)
        clean_pages.append(page)
    else:
        page.close()
    assert not instance.errors, f"errors in the page: {instance.errors}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.may_keep("threads", "playwright's event loop keeps its executor"))
            item.add_marker(pytest.mark.may_keep("descriptors", "pipes to the browser"))
