"""The panel as a reader sees it: functions that name what is on the screen."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect
from support.waiting import wait_until

PATIENCE_MS = 20_000


class Panel:
    """The panel beside the notebook, or with `within` another place in which the same view lives."""

    def __init__(self, page: Page, within: str = "#cellmesh-panel") -> None:
        self.page = page
        self.root = page.locator(f"{within} .cm-panel").first

    @property
    def canvas(self) -> Locator:
        return self.root.locator("canvas.cm-canvas")

    @property
    def card(self) -> Locator:
        return self.root.locator(".cm-card")

    def expect_open(self) -> None:
        expect(self.root).to_be_visible(timeout=PATIENCE_MS)

    def expect_tasks(self, ended: int, of: int | None = None) -> None:
        """The headline says that so many tasks of so many have ended."""
        expect(self.root.locator(".cm-big")).to_have_text(f"{ended:,}", timeout=PATIENCE_MS)
        if of is not None:
            expect(self.root.locator(".cm-of")).to_contain_text(re.compile(rf"\b{of:,}\b"), timeout=PATIENCE_MS)

    def expect_count(self, state: str, n: int) -> None:
        """The chip of a state ("running", "failed") shows n."""
        chip = self.root.locator(".cm-chip", has_text=state)
        expect(chip.locator("b")).to_have_text(str(n), timeout=PATIENCE_MS)

    def list(self) -> Locator:
        """Switch to the table of tasks; its rows, the latest first."""
        self.root.get_by_role("tab", name="Tables").click()
        return self.root.locator(".cm-list .cm-row")

    def tasks(self) -> None:
        """Switch to the picture with one box for each task."""
        self.root.get_by_role("tab", name="Tasks").click()

    def button(self, name: str) -> Locator:
        return self.card.get_by_role("button", name=name)

    def click_a_box(self) -> None:
        """Move the pointer over the picture, from the middle outwards, until it is over a box; click there."""
        self.root.get_by_role("button", name="Show everything").click()
        area = self.canvas.bounding_box()
        assert area
        middle = (area["x"] + area["width"] / 2, area["y"] + area["height"] / 2)

        def over() -> bool:
            for distance in range(0, int(area["height"] / 2), 8):
                for aside, sign in ((0, 1), (0, -1), (40, 1)):  # aside: the middle may lie between two columns
                    self.page.mouse.move(middle[0] + aside, middle[1] + sign * distance)
                    if "cm-over" in (self.canvas.get_attribute("class") or ""):
                        return True
            return False

        wait_until(over, what="a box under the pointer")
        self.page.mouse.down()
        self.page.mouse.up()

    def colours_drawn(self) -> int:
        """How many colours the canvas shows; one or none means that nothing is drawn."""
        return self.canvas.evaluate("""canvas => {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }""")
