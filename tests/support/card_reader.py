"""Reads the HTML of cards as strictly as it must be made: what it may have in it, and that it is well-formed."""

from __future__ import annotations

from html.parser import HTMLParser

from cellmesh.kernel_ext.cards.html import FRAME_POLICY

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)>&'`\x00\u202e"
ALLOWED = set(
    "div span code pre details summary img svg g rect circle line polyline text table thead tbody tr th td "
    "iframe".split()
)
VOID = {"img"}


class Reader(HTMLParser):
    """Fails on tags, attributes and nesting that a card must not have; collects the text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("href", "id"), name
            assert name != "srcdoc" or (tag == "iframe" and ("sandbox", "") in attrs and FRAME_POLICY in str(value))
            assert name != "src" or str(value).startswith("data:image/png;base64,")
            assert name != "style" or "url(" not in str(value)
        if tag not in VOID and tag != "rect":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> str:
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    return reader.text
