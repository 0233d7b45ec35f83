"""The simulated nvidia-smi as one file: the modules of vgpumgr.lab.nvml.smi, zipped behind a #! line (see zipapp)."""

from __future__ import annotations

import io
import zipfile
from importlib import resources

_SHEBANG = b"#!/usr/bin/python3\n"
_MAIN = "from smi.program import run\nrun()\n"


def nvidia_smi_program() -> bytes:
    """The program for /usr/bin/nvidia-smi; it needs only /usr/bin/python3 (3.9 or later)."""
    buffer = io.BytesIO()
    buffer.write(_SHEBANG)
    with zipfile.ZipFile(buffer, "a") as archive:
        # A ZipInfo has a fixed date: the same sources make the same file.
        archive.writestr(zipfile.ZipInfo("__main__.py"), _MAIN)
        for module in sorted(resources.files("vgpumgr.lab.nvml.smi").iterdir(), key=lambda file: file.name):
            if module.name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"smi/{module.name}"), module.read_bytes())
    return buffer.getvalue()
