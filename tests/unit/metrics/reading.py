"""A page read back, without any code of ours or of the client's: lines → series."""

from __future__ import annotations

import re
from typing import NamedTuple

_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\n"])*)"')
_LINE = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Line(NamedTuple):
    """One series."""

    name: str
    labels: dict[str, str]
    value: float


def parse(page: bytes) -> list[Line]:
    """Every series in order. Fails on what the text format does not know, and on a timestamp."""
    text = page.decode()
    assert text.endswith("\n")
    return [_line(line) for line in text[:-1].split("\n") if not line.startswith("# ")]


def _line(text: str) -> Line:
    found = _LINE.fullmatch(text)
    assert found is not None, text
    inside = found[2] or ""
    pairs = _LABEL.findall(inside)
    assert ",".join(f'{name}="{value}"' for name, value in pairs) == inside, text
    labels = {name: re.sub(r"\\.", lambda escape: _ESCAPES[escape[0]], value) for name, value in pairs}
    assert len(labels) == len(pairs), text
    return Line(found[1], labels, float(found[3]))


def value(lines: list[Line], name: str, **labels: str) -> float | None:
    """The one series of that name whose labels include these; None where there is none."""
    found = [line.value for line in lines if line.name == f"vgpumgr_{name}" and labels.items() <= line.labels.items()]
    assert len(found) <= 1, (name, labels, found)
    return found[0] if found else None
