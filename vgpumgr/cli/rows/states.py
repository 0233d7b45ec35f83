"""The colours of states, one vocabulary for all tables; docs/output.md says what each word means."""

from __future__ import annotations

from typing import Final

STATES: Final = {
    "bound": "green",
    "in_use": "green",
    "running": "green",
    "ok": "green",
    "installed": "green",
    "done": "green",
    "up": "green",
    "pending": "yellow",
    "pending_restart": "yellow",
    "pending_reboot": "yellow",
    "made": "yellow",
    "drift": "yellow",
    "outdated": "yellow",
    "unverified": "yellow",
    "unknown": "yellow",
    "not ended": "yellow",
    "would_change": "yellow",
    "waiting": "yellow",
    "unknown_vm": "yellow",
    "busy": "yellow",
    "gone": "red",
    "lost": "red",
    "broken": "red",
    "failed": "red",
    "usage": "red",
    "refused": "red",
    "no_capacity": "red",
    "interrupted": "red",
    "unreached": "red",
    "down": "red",
    "foreign": "dim",
    "cached": "dim",
    "off": "dim",
    "undeclared": "dim",
    "unchanged": "dim",
    "absent": "dim",
}
