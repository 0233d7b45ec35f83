"""Libraries come without what they bring along and nobody needs; whoever imports that later gets the real thing."""

from __future__ import annotations

import json  # noqa: F401 -- to be there already
import subprocess
import sys

from vgpumgr.lean_imports import lean_imports

_IMPORTED = """
import sys
from vgpumgr.lean_imports import lean_imports
with lean_imports("invoke"):
    import paramiko, tabulate
print("invoke" in sys.modules, "importlib.metadata" in sys.modules, "email" in sys.modules)
import importlib.metadata, invoke
print(invoke.__name__, importlib.metadata.version("paramiko") == "unknown", importlib.metadata.version("tabulate") == "unknown")
"""


def test_a_library_comes_alone_and_the_rest_can_still_be_imported() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTED], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False", "False", "invoke", "False", "False"]


def test_a_module_that_is_there_already_stays() -> None:
    import importlib.metadata as real

    with lean_imports("json"):
        assert sys.modules["importlib.metadata"] is real
        assert sys.modules["json"] is not None
