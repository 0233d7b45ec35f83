# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of every module, for the module itself (AnsibleModule) and its action plugin (validate_argument_spec)."""

from __future__ import annotations

from ansible.module_utils.basic import env_fallback

_FLEET = {
    "inventory": {"type": "path", "fallback": (env_fallback, ["VGPUMGR_INVENTORY"])},
    "group": {"type": "str"},
    "timeout": {"type": "int"},
}
_ASKING = {
    "profile": {"type": "str"},
    "mig_profile": {"type": "str"},
    "gpu_memory": {"type": "str"},
    "gpu": {"type": "str"},
    "fgpu": {"type": "str"},
    "series": {"type": "str", "choices": ["A", "B", "C", "Q"]},
    "usable": {"type": "bool"},
    "max_waste": {"type": "int"},
    "compute": {"type": "str", "choices": ["best-effort", "equal-share", "fixed-share"]},
    "only": {"type": "str", "choices": ["mig", "time-sliced"]},
    "prefer": {"type": "str", "choices": ["mig", "time-sliced"]},
    "param": {"type": "str"},
}
_REPLACE = ["never", "if-other", "always"]

VGPU = {
    "argument_spec": {
        "name": {"type": "str"},
        "slot": {"type": "str", "default": "vgpu0"},
        **_ASKING,
        "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        "host": {"type": "str"},
        "gpu_id": {"type": "str"},
        "policy": {"type": "str"},
        "reservation": {"type": "str"},
        "wait": {"type": "bool", "default": False},
        "replace": {"type": "str", "choices": _REPLACE, "default": "if-other"},
        "keep_snapshots": {"type": "bool", "default": False},
        "even_if_it_will_not_start": {"type": "bool", "default": False},
        "vms": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "slot": {"type": "str"},
                **_ASKING,
                "state": {"type": "str", "choices": ["present", "absent"]},
                "host": {"type": "str"},
                "gpu_id": {"type": "str"},
                "policy": {"type": "str"},
                "reservation": {"type": "str"},
                "wait": {"type": "bool"},
                "replace": {"type": "str", "choices": _REPLACE},
                "keep_snapshots": {"type": "bool"},
                "even_if_it_will_not_start": {"type": "bool"},
            },
        },
        **_FLEET,
    },
    "mutually_exclusive": [("name", "vms")],
    "required_one_of": [("name", "vms")],
}

VGPU_INFO = {
    "argument_spec": {
        "name": {"type": "str"},
        "host": {"type": "str"},
        **_FLEET,
    },
}

VGPU_RECONCILE = {
    "argument_spec": {
        "limit": {"type": "list", "elements": "str", "default": []},
        "confirm": {"type": "bool", "default": False},
        "confirm_destroys": {"type": "int"},
        "deadline": {"type": "int", "default": 300},
        "strict": {"type": "bool", "default": False},
        "start": {"type": "bool", "default": False},
        **_FLEET,
    },
}
