"""render-1.json: the hostdev XML of a VM's claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.names import Slot, VmName

SCHEMA = "vgpumgr.render/1"


def document(vm: VmName, hostdevs: Iterable[tuple[Slot, str]], *, validated_by: str | None = None) -> dict[str, object]:
    """`validated_by`: the version of the libvirt that accepts them all."""
    return {
        "schema": SCHEMA,
        **common.frame(),
        "vm": vm,
        "validated_by": validated_by,
        "hostdevs": [{"slot": slot, "xml": xml} for slot, xml in hostdevs],
    }
