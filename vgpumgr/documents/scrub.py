"""Takes out of a capture what belongs to a site: names, UUIDs, what the ledger and the module's options say.

The same name or UUID becomes the same substitute everywhere, so that what belongs together still does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEX: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32})(?![0-9A-Za-z])"
)
_NAMED = {"hostname": "host", "vm_name": "vm", "machine": "machine", "vm": "vm"}
_NAMING_CALLS = ("nvmlVgpuInstanceGetVmID", "nvmlDeviceGetSerial")
_OURS = ("ledger", "freed", "cordons", "reservations", "instances", "blocked_writes", "modprobe", "qemus")
"""The facts that are not the driver's."""


def scrub(capture: Mapping[str, object]) -> dict[str, Any]:
    """The capture as it may be mailed. It has the same shape."""
    scrubber = _Scrubber()
    copy: dict[str, Any] = {**capture}
    copy["snapshot"] = {**copy["snapshot"]}
    for key in _OURS:
        if copy["snapshot"].get(key):
            copy["snapshot"][key] = []
    copy["calls"] = [{**one, "answer": '""'} if one["call"] in _NAMING_CALLS else one for one in copy["calls"]]
    scrubber.learn(copy)
    found: dict[str, Any] = scrubber.of(copy)
    return found


class _Scrubber:
    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._numbers: dict[str, str] = {}
        self._any = re.compile(r"(?!)")

    def learn(self, value: Any) -> None:
        """Learn the names in a value, wherever they stand."""
        self._learn(value)
        longest = sorted(self._names, key=len, reverse=True)
        words = "|".join(map(re.escape, longest)) or "(?!)"
        self._any = re.compile(rf"(?<![0-9A-Za-z])(?:{words})(?![0-9A-Za-z])")

    def _learn(self, value: Any) -> None:
        if isinstance(value, dict):
            for key, below in value.items():
                kind = _NAMED.get(key)
                if kind is not None and isinstance(below, str) and below and not _HEX.fullmatch(below):
                    of_kind = sum(one.startswith(f"{kind}-") for one in self._names.values())
                    self._names.setdefault(below, f"{kind}-{of_kind + 1}")
                self._learn(below)
        elif isinstance(value, list):
            for below in value:
                self._learn(below)

    def of(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self.of(below, name) for name, below in value.items()}
        if isinstance(value, list):
            return [self.of(below, key) for below in value]
        if not isinstance(value, str):
            return value
        if key in _NAMED and value in self._names:
            return self._names[value]
        text = _HEX.sub(lambda match: self._number(match[0]), value)
        return self._any.sub(lambda match: self._names[match[0]], text) if key == "why" else text

    def _number(self, text: str) -> str:
        """The substitute for a UUID or a machine id. One that has only zeroes stays."""
        plain = text.replace("-", "").lower()
        if not plain.strip("0"):
            return text
        made = self._numbers.setdefault(plain, f"{len(self._numbers) + 1:08x}000040008000{0:012x}")
        dashed = f"{made[:8]}-{made[8:12]}-{made[12:16]}-{made[16:20]}-{made[20:]}"
        return dashed if "-" in text else made
