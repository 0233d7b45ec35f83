"""The built-in specs, in the format of a spec file. They are part of the contract: change nothing that scripts rely on.

Every VM is defined and shut off; vm01…vm30 are on kvm01, vm31…vm36 on the other hosts in turn, or on kvm01 if it is the
only host. kvm01 has only boards with 4Q (4C in `mig`), and nothing foreign.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIRST = "vm[01:30]"

BUILTIN: Mapping[str, Mapping[str, Any]] = {
    "mdev-pf": {
        "hosts": {"kvm01": {"driver": "535", "boards": ["T4", "T4"], "vms": ["vm[01:36]"]}},
    },
    "mdev-vf": {
        "hosts": {
            "kvm01": {"driver": "570", "framework": "mdev-vf", "boards": ["A40", "A40"], "vms": [_FIRST]},
            "kvm02": {"driver": "570", "framework": "mdev-vf", "boards": ["A100"], "vms": ["vm[31:36]"]},
        },
    },
    "vendor-vfio": {
        "hosts": {
            "kvm01": {"driver": "595", "framework": "vendor-vfio", "boards": ["L40S", "L40S"], "vms": [_FIRST]},
            "kvm02": {"driver": "595", "framework": "vendor-vfio", "boards": ["H100"], "vms": ["vm[31:36]"]},
        },
    },
    "blackwell": {  # as on a host with four of these boards: two PCI domains, VFs from function 2 on
        "hosts": {
            "kvm01": {
                "driver": "580",
                "framework": "vendor-vfio",
                "boards": [
                    {"board": "RTXPRO6000", "pci": "0000:41:00.0"},
                    {"board": "RTXPRO6000", "pci": "0001:c8:00.0", "numa": 1},
                ],
                "vms": ["vm[01:36]"],
            },
        },
    },
    "mig": {  # MIG beside time slicing, and instances that somebody else made
        "hosts": {
            "kvm01": {
                "driver": "570",
                "framework": "mdev-vf",
                "boards": [{"board": "A100", "mode": "mig"}, "A100"],
                "vms": [_FIRST],
            },
            "kvm02": {
                "driver": "595",
                "framework": "vendor-vfio",
                "boards": [{"board": "H100", "mode": "mig", "instances": [{"profile": "2g.20gb", "start": 0}]}],
                "vms": ["vm[31:36]"],
            },
        },
    },
    "mixed-fleet": {
        "hosts": {
            "kvm01": {"driver": "570", "framework": "mdev-vf", "boards": ["A40", "A40"], "vms": [_FIRST]},
            "kvm02": {
                "driver": "595",
                "framework": "vendor-vfio",
                "boards": ["L40S", "L40S", "H100"],
                "vms": ["vm31", "vm33", "vm35"],
            },
            "kvm03": {
                "driver": "570",
                "framework": "mdev-vf",
                "boards": ["T4", "A40"],
                "vms": ["vm32", "vm34", "vm36", "legacy01"],
                "foreign": [{"gpu": 1, "vf": 0, "type": "A40-4Q", "vm": "legacy01"}],
            },
        },
        "declared": {
            "kvm01": {
                "vm01": {"vgpu0": {"profile": "4Q"}},
                "vm02": {"vgpu0": {"profile": "4Q"}},
                "vm03": {"vgpu0": {"profile": "A40-4Q"}},
                "vm04": {"vgpu0": {"profile": "4C"}},
            },
            "kvm02": {
                "vm31": {"vgpu0": {"profile": "L40S-4Q"}},
                "vm33": {"vgpu0": {"profile": "L40S-8Q"}},
                "vm35": {"vgpu0": {"profile": "H100-10C"}},
            },
            "kvm03": {"vm32": {"vgpu0": {"profile": "T4-4Q"}}},
        },
    },
    "default": {
        "hosts": {
            "kvm01": {"driver": "570", "framework": "mdev-vf", "boards": ["A40", "A40"], "vms": [_FIRST]},
            "kvm02": {"driver": "570", "framework": "mdev-vf", "boards": ["A100"], "vms": ["vm31", "vm35"]},
            "kvm03": {"driver": "595", "framework": "vendor-vfio", "boards": ["L40S", "L40S"], "vms": ["vm32", "vm36"]},
            "kvm04": {"driver": "595", "framework": "vendor-vfio", "boards": ["H100"], "vms": ["vm33"]},
            "kvm05": {"driver": "535", "boards": ["T4"], "vms": ["vm34"]},
        },
    },
}
