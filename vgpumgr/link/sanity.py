"""What no host can mean, in facts that have the protocol's shape otherwise: one odd number is unknown, and all else stands.

A driver's slip is enough for it (an unsigned number that ran under); numbers beyond 2^53 are what neither a database's
integer nor a metric's float holds.
"""

from __future__ import annotations

from typing import Any

_LEAST = -1  # a NUMA node of none
_END = 2**53
_FILE = ("ledger", "stuck")  # of one file, which is believed whole or not at all
_SHOWN = 10**24


def is_odd(value: str | float) -> bool:
    """Whether it is a number that cannot be, or text that is no Unicode."""
    if isinstance(value, str):
        return not value.isascii() and value != _written(value)
    return not _LEAST <= value < _END


def mend(facts: dict[str, Any]) -> None:
    """Make odd values null, in place, with a row in `unknown` for each; text that is no Unicode gets question marks.

    One in the ledger makes the whole of it unknown.
    """
    odd: list[dict[str, str]] = []
    for key, value in facts.items():
        facts[key] = _mended(value, key, odd)
    why = next((row["why"] for row in odd if row["what"].startswith(_FILE)), None)
    if why is not None:
        there = [key for key in _FILE if key in facts]
        odd = [row for row in odd if not row["what"].startswith(_FILE)]
        odd += [{"what": key, "why": f"a number in it cannot be: {why}"} for key in there]
        facts.update(dict.fromkeys(there))
    unknown = facts.get("unknown")
    if isinstance(unknown, list):
        unknown += odd


def _mended(value: Any, where: str, odd: list[dict[str, str]]) -> Any:
    match value:
        case dict():
            for key, inner in value.items():
                value[key] = _mended(inner, f"{where}.{key}", odd)
        case list():
            for at, inner in enumerate(value):
                value[at] = _mended(inner, f"{where}[{at}]", odd)
        case str() if is_odd(value):
            return _written(value)
        case int() | float() if is_odd(value):
            odd.append(
                {"what": where, "why": f"the host says {value}" if abs(value) < _SHOWN else "far too many digits"}
            )
            return None
    return value


def _written(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
