"""Asks NVML on a simulated host through NVIDIA's own Python binding."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab


def ask(lab: Lab, host: str, expression: str, *, gpu: int = 0, helpers: str = "") -> Any:
    """The value of an expression over pynvml's names on the host, or NVML's error number as a text.

    `helpers` are definitions that it may use, and `gpu` in it is that GPU's handle.
    """
    program = f"""import ctypes, json, sys, time
sys.path.insert(0, "/tmp")
from pynvml import *
nvmlInit()
gpu = nvmlDeviceGetHandleByIndex({gpu})
{textwrap.dedent(helpers)}
try:
    answer = {expression}
except NVMLError as error:
    answer = str(error.value)
print(json.dumps(answer))
"""
    if lab.ssh(host, "test -e /tmp/pynvml.py").returncode != 0:
        lab.must(host, "cat > /tmp/pynvml.py", text=Path(pynvml.__file__).read_text(encoding="utf-8"))
    return json.loads(lab.must(host, "/usr/bin/python3 -", text=program))
