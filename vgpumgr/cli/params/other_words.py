"""Other tools' names for our commands. Such a word is answered with our command's name; nothing is carried out."""

from __future__ import annotations

from typing import Final

_MEANT: Final = {
    ("ls", "get", "ps"): "`vgpumgr list`",
    ("status", "stat"): "`vgpumgr list` for vGPUs, `vgpumgr host status` for hosts",
    ("describe", "inspect", "info"): "`vgpumgr show VM`, or `vgpumgr discover` for GPUs",
    ("gpus", "devices", "lsgpu"): "`vgpumgr discover`",
    ("types", "flavors", "sizes"): "`vgpumgr profiles`",
    ("create", "add", "new", "run", "give", "assign", "allocate"): "`vgpumgr attach VM --profile 4Q`",
    ("delete", "remove", "rm", "del", "free", "release", "unassign", "destroy"): "`vgpumgr detach VM`",
    ("resize", "change", "update", "modify", "edit", "replace", "scale"): "`vgpumgr attach VM --profile 8Q --replace`",
    ("apply", "sync", "deploy", "converge", "up"): "`vgpumgr reconcile`",
    ("diff", "preview", "dry-run"): "`vgpumgr plan`",
    ("validate", "lint", "verify"): "`vgpumgr inventory check`",
    ("move", "migrate", "evacuate"): "`vgpumgr drain HOST`, which moves vGPUs off a GPU",
    ("uninstall", "clean", "cleanup", "reset"): "`vgpumgr host purge HOST`",
    ("diagnose", "diagnostics", "health", "check", "troubleshoot"): "`vgpumgr doctor`",
    ("logs", "log", "events", "audit"): "`vgpumgr history`",
    ("monitor", "watch"): "`vgpumgr top`",
    ("metrics", "exporter", "prometheus"): "`vgpumgr export`",
    ("free-space", "available", "fits"): "`vgpumgr capacity`",
    ("help", "man"): "`vgpumgr --help`, or `vgpumgr docs`",
}
_BY_WORD: Final = {word: ours for words, ours in _MEANT.items() for word in words}


def meant(word: str) -> str | None:
    """Our command for another tool's word; None if the word is unknown."""
    return _BY_WORD.get(word.lower())
