"""Takes out of a capture what belongs to a site: names, UUIDs, what the ledger and the files of modprobe.d say.

The same name or UUID becomes the same substitute everywhere, so that what belongs together still does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_HEX: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32})(?![0-9A-Za-z])"
)
_NAMED = {"hostname": "host", "vm_name": "vm", "machine": "machine", "vm": "vm"}
_NAMING_CALLS = ("nvmlVgpuInstanceGetVmID", "nvmlDeviceGetSerial")
_OURS = ("ledger", "freed", "cordons", "reservations", "instances", "blocked_writes", "modprobe", "qemus")
"""The facts that are not the driver's."""


def scrub(capture: Mapping[str, object]) -> dict[str, Any]:
    """The capture as it may be mailed. It has the same shape."""
    copy: dict[str, Any] = {**capture}
    copy["snapshot"] = {key: [] if key in _OURS and told else told for key, told in copy["snapshot"].items()}
    copy["calls"] = [{**one, "answer": '""'} if one["call"] in _NAMING_CALLS else one for one in copy["calls"]]
    names: dict[str, str] = {}
    numbers: dict[str, str] = {}

    def learn(key: str, text: str) -> str:
        kind = _NAMED.get(key)
        if kind is not None and text and not _HEX.fullmatch(text):
            of_kind = sum(one.startswith(f"{kind}-") for one in names.values())
            names.setdefault(text, f"{kind}-{of_kind + 1}")
        return text

    def number(match: re.Match[str]) -> str:
        """The substitute for a UUID or a machine id. One that has only zeroes stays."""
        plain = match[0].replace("-", "").lower()
        if not plain.strip("0"):
            return match[0]
        made = numbers.setdefault(plain, f"{len(numbers) + 1:08x}000040008000{0:012x}")
        return str(UUID(made)) if "-" in match[0] else made

    def substitute(key: str, text: str) -> str:
        if key in _NAMED and text in names:
            return names[text]
        text = _HEX.sub(number, text)
        return any_name.sub(lambda match: names[match[0]], text) if key == "why" else text

    _each_text(copy, learn)
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True))) or "(?!)"
    any_name = re.compile(rf"(?<![0-9A-Za-z])(?:{words})(?![0-9A-Za-z])")
    found: dict[str, Any] = _each_text(copy, substitute)
    return found


def _each_text(value: Any, tell: Callable[[str, str], str], key: str = "") -> Any:
    """A copy of the value in which each text is replaced by `tell(key, text)`.

    `key`: the key of the object that holds the value.
    """
    if isinstance(value, dict):
        return {name: _each_text(below, tell, name) for name, below in value.items()}
    if isinstance(value, list):
        return [_each_text(below, tell, key) for below in value]
    return tell(key, value) if isinstance(value, str) else value
