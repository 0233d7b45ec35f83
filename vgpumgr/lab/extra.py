"""The command that installs the lab's Python packages.

It takes vgpumgr from where it was installed before, so no package index need have it.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command() -> str:
    """Return the command. It names the file or directory in pip's record (PEP 610, direct_url.json).

    If that is gone, it names a wheel in the working directory.
    """
    version, source = "", None
    try:
        distribution = importlib.metadata.distribution("vgpumgr")
        version, source = distribution.version, json.loads(distribution.read_text("direct_url.json") or "{}")
    except (importlib.metadata.PackageNotFoundError, OSError, ValueError):
        pass
    url = urlsplit(source["url"]) if isinstance(source, dict) and isinstance(source.get("url"), str) else None
    path = Path(unquote(url.path)) if url is not None and url.scheme == "file" else None
    if path is None or not path.exists():
        path = Path(f"./vgpumgr-{version or 'VERSION'}-py3-none-any.whl")
        return f"{shlex.quote(sys.executable)} -m pip install './{path}[lab]'"
    editable = isinstance(source, dict) and bool((source.get("dir_info") or {}).get("editable"))
    return f"{shlex.quote(sys.executable)} -m pip install {'-e ' if editable else ''}{shlex.quote(f'{path}[lab]')}"
