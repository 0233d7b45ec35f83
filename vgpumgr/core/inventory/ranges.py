"""Ansible's host patterns: `kvm[01:10]`, `kvm[a:c]`, `kvm[0:9:3]-[1:2]`, optionally with `:PORT`; also for VM names.

The rules are ansible-core 2.19's (plugins/inventory: expand_hostname_range), except that an empty range and a step of
0, which Ansible accepts silently, are errors here.
"""

from __future__ import annotations

import itertools
import re
import string
from typing import TYPE_CHECKING

from vgpumgr.errors import BadName
from vgpumgr.names import HostName, parse_host_name

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_NAMES = 100_000  # in one pattern; a typo such as [1:1000000000] must not exhaust the memory

_PORT = re.compile(r"((?:[^:\[\]]|\[[^\]]*\])*):([0-9]{1,9})")
_ADDRESS_PORT = re.compile(
    r"\[((?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|[0-9A-Fa-f:.]*::[0-9A-Fa-f:.]*)\]:([0-9]{1,9})"
)
# Ansible accepts more. But no pattern could name a host with brackets or commas, and a colon at the end is YAML's, or
# its port is missing.
_ODD = re.compile(r"[^\x00-\x1f\x7f-\x9f,\[\]]{0,254}[^\x00-\x1f\x7f-\x9f,\[\]:]")
_LETTERS, _LETTER = string.ascii_letters, re.compile("[A-Za-z]")
_NUMBER, _BOUND = re.compile("[0-9]+"), re.compile("[0-9]{1,18}")
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_OPEN = re.compile(r"\[[^\[\]]*:|:[^\[\]]*\]")  # a range with one bracket only
_HINT = "write a range as [01:10], [a:c] or [0:9:3]"


def expand(pattern: str) -> tuple[list[HostName], int | None]:
    """The hosts that a pattern names, in order, and the port it gives them. Raises BadName.

    Names that vgpumgr could not connect to are accepted, too (`web.1.`, `köln01`, `2001:db8::7`).
    """
    with_port = _ADDRESS_PORT.fullmatch(pattern) or _PORT.fullmatch(pattern)
    text, port = (with_port[1], int(with_port[2])) if with_port else (pattern, None)
    return [HostName(name) if _ODD.fullmatch(name) else parse_host_name(name) for name in names(text)], port


def has_range(text: str) -> bool:
    """Whether the text is a range. `vm[1]` is not: a VM may be called so. Raises BadName if a bracket is missing."""
    if _OPEN.search(_RANGE.sub("", text)):
        raise BadName(f"not a range: {text}", hint=_HINT)
    return any(":" in inside for inside in _RANGE.findall(text))


def names(text: str) -> list[str]:
    """The texts that a pattern without a port stands for, in order. Raises BadName."""
    pieces = _RANGE.split(text)  # text, range, text, range, …, text
    choices = [[piece] if index % 2 == 0 else [*_sequence(piece)] for index, piece in enumerate(pieces)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MAX_NAMES:
        raise BadName(f"{text!r} names more than {MAX_NAMES} names")
    return ["".join(parts) for parts in itertools.product(*choices)]


def _sequence(inside: str) -> list[str]:
    bounds = inside.split(":")
    if len(bounds) not in {2, 3}:
        raise BadName(f"not a range: [{inside}]", hint=_HINT)
    first, last, step_text = bounds[0] or "0", bounds[1], bounds[2] if len(bounds) == 3 else "1"
    step = int(step_text[:9]) if _NUMBER.fullmatch(step_text) else 0
    if step == 0:
        raise BadName(f"the step of [{inside}] must be a number above 0", hint=_HINT)
    width = 0
    if _LETTER.fullmatch(first) and _LETTER.fullmatch(last):
        members: Sequence[str | int] = _LETTERS[_LETTERS.index(first) : _LETTERS.index(last) + 1 : step]
    else:
        width = _width(inside, first, last)
        members = range(int(first), int(last) + 1, step)
    if not members:
        raise BadName(f"the range [{inside}] ends before it begins")
    if len(members) > MAX_NAMES:
        raise BadName(f"[{inside}] names more than {MAX_NAMES} names")
    return [str(one).zfill(width) for one in members]


def _width(inside: str, first: str, last: str) -> int:
    """The least number of digits in a range. Raises BadName if the bounds are no numbers or differ in length."""
    if not (_BOUND.fullmatch(first) and _BOUND.fullmatch(last)):
        raise BadName(f"not a range: [{inside}]", hint=_HINT)
    width = len(first) if first.startswith("0") and len(first) > 1 else 0
    if width and len(last) != width:
        raise BadName(f"the bounds of [{inside}] must have the same number of digits", hint=_HINT)
    return width
