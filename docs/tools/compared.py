"""Counts the lines of docs/compared.md into its table, or runs the blocks of one library.

python docs/tools/compared.py                # write the table
python docs/tools/compared.py --run ray      # from top to bottom, in a temporary folder
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compared.md"
LIBRARIES = ("cellmesh", "ray", "dask", "joblib")
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=<!-- end of table -->)", re.S)
BLOCK = re.compile(r"```python(?: (?P<library>\w+))?(?P<lacks> -)?\n(?P<body>.*?)```", re.S)


def tasks(text: str) -> list[tuple[str, dict[str, int | None]]]:
    """Each task, with the lines that it takes in each library; None where there is no such thing."""
    found = []
    for section in re.split(r"^## \d+\. ", text, flags=re.M)[1:]:
        lines = {
            block["library"]: None if block["lacks"] else sum(bool(line.strip()) for line in block["body"].splitlines())
            for block in BLOCK.finditer(section)
        }
        found.append((section.splitlines()[0], lines))
    return found


def page(text: str) -> str:
    """The page with its table as it must be."""
    found = tasks(text)
    rows = [
        f"| {number}. {title} | " + " | ".join(str(lines[library] or "–") for library in LIBRARIES) + " |"
        for number, (title, lines) in enumerate(found, 1)
    ]
    counted = {library: [lines[library] for _, lines in found if lines[library] is not None] for library in LIBRARIES}
    sums = [f"{sum(lines)} for {len(lines)} tasks" for lines in counted.values()]
    table = "\n".join(
        [
            "| task | cellmesh | Ray | Dask | joblib |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            f"| lines | {' | '.join(sums)} |",
            "",
        ]
    )
    return TABLE.sub(lambda _: table, text)


def program(text: str, library: str) -> str:
    """All blocks of a library, with what they share, as one program."""
    return "\n".join(block["body"] for block in BLOCK.finditer(text) if block["library"] in (None, library))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=LIBRARIES)
    library = parser.parse_args().run
    text = PAGE.read_text()
    if library is None:
        PAGE.write_text(page(text))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        # Dask's processes import the program again.
        path.write_text("if __name__ == '__main__':\n" + re.sub(r"^(?=.)", "    ", program(text, library), flags=re.M))
        return subprocess.run([sys.executable, path], cwd=folder).returncode


if __name__ == "__main__":
    sys.exit(main())
