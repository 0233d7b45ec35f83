"""What somebody who may edit a VM can write into it: a claim of our form, for a vGPU that he was never given."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

from hypothesis import strategies as st

from tests.model import promises
from tests.model.fleet import wish_of
from tests.model.machine import GPUS
from vgpumgr import names, templates
from vgpumgr.core.model import claims
from vgpumgr.core.model.claims import Binding, Claim, ClaimDocument
from vgpumgr.core.model.domain_xml import expected_hostdev
from vgpumgr.host.protocol.gpu import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.names import GpuUuid, MdevUuid, PciAddress

if TYPE_CHECKING:
    from tests.model.libvirt_double import Vm
    from tests.model.machine import Machine
    from vgpumgr.names import Slot

states = st.sampled_from(cast("tuple[claims.State, ...]", get_args(claims.State)))
generations = st.sampled_from((1, 2, 7, 2**31))


def forge(
    machine: Machine,
    vm: Vm,
    slot: Slot,
    *,
    like: str | None,
    at: tuple[int, int],
    profile: str,
    state: claims.State,
    generation: int,
    device: bool,
) -> None:
    """The VM's claim of that slot becomes another. `like`: the UUID of a VM whose vGPU it names, if that has one; else it names the
    place `at` (GPU and VF by number). `device`: the definition names it, too.
    """
    gpu = machine.driver.gpu(GPUS[at[0]])
    kind = next(kind for kind in gpu.board.types if kind.name.endswith(f"-{profile}"))
    vf = None if machine.framework == MDEV_PF else at[1]
    uuid = None if machine.framework == VENDOR_VFIO else str(names.compute_mdev_uuid(vm.uuid, slot, generation))
    entry = next((entry for entry in promises.truth(machine).entries if entry.vm == like), None)
    if entry is not None and (found := machine.driver.find(promises.device_name(machine, entry))) is not None:
        gpu, kind, vf, uuid = found[0], found[1].type, entry.vf, entry.place.uuid
    binding = Binding(
        host=machine.id,
        gpu_uuid=GpuUuid(gpu.uuid),
        parent=PciAddress(gpu.pci if vf is None else vf_pci(gpu, vf)),
        vf_index=vf,
        type_name=kind.name,
        type_id=kind.id,
        uuid=MdevUuid(uuid) if uuid is not None else None,
    )
    claim = Claim(
        slot=slot,
        generation=generation,
        origin=claims.ATTACH,
        state=state,
        by="mallory@guest",
        at="2026-11-20T00:00:00Z",
        wish=wish_of(profile),
        binding=binding,
    )
    domain = promises.truth(machine).domains[vm.uuid]
    kept = () if domain.claims is None else tuple(each for each in domain.claims.claims if each.slot != slot)
    document = templates.render_claims(ClaimDocument(vm=vm.uuid, claims=(*kept, claim)))
    machine.libvirt.set_metadata(vm.uuid, document, key=claims.KEY, uri=claims.NAMESPACE)
    wanted = expected_hostdev(slot, binding)
    if device and not any(each.slot == slot or each.source == wanted.source for each in domain.inactive):
        machine.libvirt.attach_device(vm.uuid, templates.render_hostdev(wanted))
