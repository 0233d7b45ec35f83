# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the Python that runs this has vgpumgr, and a version that is new enough."""

from __future__ import annotations

import sys

from ansible.module_utils.basic import missing_required_lib

NEEDED = (0, 1, 0)


def why_not():
    """What is wrong with vgpumgr in this Python, as a failed result; None if nothing is."""
    try:
        from vgpumgr import __version__
        from vgpumgr.controller import requests  # noqa: F401 -- so that a missing dependency of vgpumgr shows here, not half way
    except ImportError as error:
        reason = f"({error}) {sys.executable} has no usable vgpumgr; Ansible and vgpumgr belong in the same virtual environment."
        return {"failed": True, "msg": f"{missing_required_lib('vgpumgr')} {reason}", "python": sys.executable}
    if _numbers(__version__) < NEEDED:
        least = ".".join(map(str, NEEDED))
        msg = f"vgpumgr {__version__} of {sys.executable} is too old: this collection needs {least} or newer"
        return {"failed": True, "msg": msg, "python": sys.executable}
    return None


def _numbers(version):
    """0.1.0.dev3 → (0, 1, 0)."""
    numbers = []
    for part in version.split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)
