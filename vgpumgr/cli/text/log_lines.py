"""stderr with `--log-format json`: a JSON object per line, both for the program's own messages and for log records.

Keys: ts (RFC 3339, UTC) · level (debug info warning error critical) · message · host (null unless one is meant) · run.
`run` is the same on all lines of one process: systemd's $INVOCATION_ID, which its journal also has, else the pid.
"""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys
from typing import TYPE_CHECKING

from vgpumgr.cli.text.words import folded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.cli.settings import Settings


def line(level: str, message: str, *, host: str | None = None, more: Mapping[str, object] | None = None) -> str:
    """One line without its line break. `more` holds additional keys."""
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    run = os.environ.get("INVOCATION_ID") or str(os.getpid())
    return json.dumps({"ts": now, "level": level, "message": message, "host": host, "run": run, **(more or {})})


def start(settings: Settings) -> None:
    """Send logging to stderr: nothing by default, each host's actions with -v, the SSH library's lines with -vv."""
    level = {0: logging.CRITICAL, 1: logging.INFO}.get(settings.verbose, logging.DEBUG)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if settings.log_format == "json" else _Text(_TEXT))
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("paramiko").setLevel(logging.NOTSET if settings.verbose >= _ALL else logging.CRITICAL)


_ALL = 2
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class _Text(logging.Formatter):
    """`17:36:08.123 kvm01: logging in`, and any traceback.

    Control characters are removed: even a host with a wrong key can send text.
    """

    def format(self, record: logging.LogRecord) -> str:
        host = getattr(record, "host", None)
        if host is None:
            return folded(super().format(record))
        traceback = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        time = f"{self.formatTime(record, '%H:%M:%S')}.{record.msecs:03.0f}"
        return folded(f"{time} {host}: {record.getMessage()}{traceback}")


class _Json(logging.Formatter):
    """A record as one line; `extra={"host": …}` names its host, and the line includes any traceback."""

    def format(self, record: logging.LogRecord) -> str:
        more: dict[str, object] = {"logger": record.name}
        if record.exc_info:
            more["traceback"] = self.formatException(record.exc_info)
        return line(record.levelname.lower(), record.getMessage(), host=getattr(record, "host", None), more=more)
