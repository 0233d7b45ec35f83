"""Makes impossible values unknown, in facts that have the protocol's shape. The rest stays.

A driver bug is enough to cause one (an unsigned number that underflowed). Numbers beyond 2^53 fit neither a database's
integer nor a metric's float.
"""

from __future__ import annotations

from typing import Any

_LEAST = -1  # the NUMA node of a device without one
_END = 2**53
_FILE = ("ledger", "blocked_writes", "instances")  # all from one file, which is trusted entirely or not at all
_NEVER_NULL = "instances"  # empty where the file is not trusted
_WHOLE = "mig"  # of a GPU: how it is divided is known entirely or not at all
_SHOWN = 10**24


def is_odd(value: str | float) -> bool:
    """Whether it is an impossible number, or text that is not valid Unicode."""
    if isinstance(value, str):
        return not value.isascii() and value != _written(value)
    return not _LEAST <= value < _END


def mend(facts: dict[str, Any]) -> None:
    """Replace impossible values by null, in place, and invalid Unicode by question marks.

    Each impossible value gets a row in `unknown`. One in the ledger makes the whole ledger unknown.
    """
    odd: list[dict[str, str | None]] = []
    in_file: list[dict[str, str | None]] = []
    for key, value in facts.items():
        facts[key] = _mended(value, None, key, in_file if key in _FILE else odd)
    if in_file:
        keys = [key for key in _FILE if key in facts]
        why = f"it has an impossible number: {in_file[0]['why']}"
        odd += [{"gpu": None, "what": key, "why": why} for key in keys if key != _NEVER_NULL]
        facts.update({key: [] if key == _NEVER_NULL else None for key in keys})
    rows = facts.get("unknown")
    if isinstance(rows, list):
        rows += odd


def _mended(value: Any, gpu: str | None, where: str, odd: list[dict[str, str | None]]) -> Any:
    match value:
        case dict():
            for key, inner in value.items():
                if key == _WHOLE and gpu is not None and not where:
                    value[key] = _whole(inner, gpu, key, odd)
                    continue
                value[key] = _mended(inner, gpu, f"{where}.{key}" if where else key, odd)
        case list():
            for at, inner in enumerate(value):
                match inner:
                    case {"pci": str(pci)} if where == "gpus":  # a GPU's facts are named by its address
                        value[at] = _mended(inner, pci, "", odd)
                    case _:
                        value[at] = _mended(inner, gpu, f"{where}[{at}]", odd)
        case str() if is_odd(value):
            return _written(value)
        case int() | float() if is_odd(value):
            is_short = isinstance(value, float) or abs(value) < _SHOWN
            why = f"the host reports {value}" if is_short else "far too many digits"
            odd.append({"gpu": gpu, "what": where, "why": why})
            return None
    return value


def _whole(value: Any, gpu: str, where: str, odd: list[dict[str, str | None]]) -> Any:
    """Return the value. If any part is impossible, return null, and add the first reason to `odd`."""
    rows: list[dict[str, str | None]] = []
    result = _mended(value, gpu, where, rows)
    odd += [{**row, "what": where} for row in rows[:1]]
    return None if rows else result


def _written(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
