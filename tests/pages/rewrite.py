"""Writes what commands print now into the pages that show something else: `make sessions`, or with pages as arguments."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.pages import likeness, reading, running


def rewrite(page: Path) -> bool:
    """Run the page and mend it. Returns whether it was changed. What a comment says stays, so an exit code is only told."""
    with tempfile.TemporaryDirectory() as folder:
        ran = running.run(reading.blocks(page), Path(folder))
    lines = page.read_text(encoding="utf-8").split("\n")
    before = list(lines)
    for one in reversed(ran):
        command = one.command
        if not command.may_end(one.code):
            said = "\n  ".join((f"{page}:{command.first}: {command.text}: exit {one.code}", *one.printed))
            sys.stderr.write(f"{said}\n")
        if command.shown is not None and not likeness.alike(command.shown, one.printed):
            blank = [""] if command.shown and not command.shown[-1] else []
            lines[command.first : command.last] = [*one.printed, *blank]
    page.write_text("\n".join(lines), encoding="utf-8")
    return lines != before


if __name__ == "__main__":
    for name in sys.argv[1:]:
        sys.stdout.write(f"{name} {'rewritten' if rewrite(Path(name)) else 'is as it was'}\n")
