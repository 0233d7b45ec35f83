"""A vGPU for a running VM: the obstacles, and its guest address, which stays the same at the next start.

No option overrides these obstacles: libvirt, QEMU or VFIO would refuse half way, or the guest would find another GPU at
that address at its next start. Tried on libvirt 9.0 and 11.3 (tests/kernel/test_kernel_hotplug.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.evidence import lost, preflight
from vgpumgr.core.evidence.preflight import Obstacle
from vgpumgr.wording import Option, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.model.guest_ports import FreePorts
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import Slot

LATER = say("without {} it gets the vGPU at its next start", Option("--live"))


def guard_running(domain: Domain) -> None:
    """Raises NotWhileRunning for a VM that is off."""
    if not domain.active:
        raise errors.NotWhileRunning(
            say("{} is shut off, and {} is for a VM that runs; nothing was changed", domain.name, Option("--live")),
            hint=LATER,
        )


def plug(view: HostView, domain: Domain, target: VgpuSpec, wanted: Hostdev) -> plan_steps.PlugHostdev | None:
    """The step that gives a VM its vGPU while it runs; None if the VM has it already. Raises NotWhileRunning."""
    if domain.live is None or domain.ports is None or _in(domain.live, wanted) is not None:
        return None
    port = _port(domain, domain.ports, wanted)
    obstacles = [*_obstacles(view, domain, target)]
    if port is None:
        obstacles.append(_no_port(domain, wanted))
    if port is None or obstacles:
        first, *others = obstacles
        raise errors.NotWhileRunning(
            say("{} cannot take {} live {}; nothing was changed", domain.name, target.type_name, first.why),
            details=[say("it cannot take it {}: {}", other.why, other.fix) for other in others],
            hint=say("{}; or leave {} out: {}", first.fix, Option("--live"), LATER),
        )
    return plan_steps.PlugHostdev(vm=domain.uuid, vm_name=domain.name, slot=target.slot, device=wanted, port=port)


def definition_port(domain: Domain, wanted: Hostdev, plugged: plan_steps.PlugHostdev | None) -> int | None:
    """The port for a device that the definition lacks: its port in the running VM; None if any port will do."""
    if plugged is not None:
        return plugged.port
    live_device = _in(domain.live or (), wanted)
    free = domain.ports.inactive if domain.ports is not None else frozenset()
    return live_device.port if live_device is not None and live_device.port in free else None


def unplug(domain: Domain, slot: Slot, device: Hostdev) -> plan_steps.UnplugHostdev:
    """The step that takes a device out of a VM while it runs."""
    return plan_steps.UnplugHostdev(vm=domain.uuid, vm_name=domain.name, slot=slot, device=device, port=device.port)


def _in(devices: tuple[Hostdev, ...], wanted: Hostdev) -> Hostdev | None:
    return next((device for device in devices if device.source == wanted.source), None)


def _port(domain: Domain, ports: FreePorts, wanted: Hostdev) -> int | None:
    """The lowest port that is free in the running VM and in its definition; None if there is none.

    If the definition has the device already, only the port that it has there will do.
    """
    defined = _in(domain.inactive, wanted)
    if defined is not None:
        return defined.port if defined.port in ports.live else None
    both = ports.live & ports.inactive
    return min(both) if both else None


def _no_port(domain: Domain, wanted: Hostdev) -> Obstacle:
    """The obstacle that no port is free.

    A running VM has the ports that its definition had at its start (libvirt's formatdomain, "Controllers").
    """
    defined = _in(domain.inactive, wanted)
    if defined is not None:
        return Obstacle(
            why="at the guest address that its definition has for it, which is not free while it runs"
            if defined.port is not None
            else "at the guest address that its definition has for it, which is not behind a PCI Express root port",
            fix="shut it down and start it",
        )
    return Obstacle(
        why="with the PCI Express root ports that it has: none is free both now and in its definition",
        fix="shut it down and add some (`virsh edit`: <controller type='pci' model='pcie-root-port'/>; machine type q35)",
    )


def _obstacles(view: HostView, domain: Domain, target: VgpuSpec) -> Iterator[Obstacle]:
    ill = lost.may_crash(view.snapshot)
    if ill is not None:  # for the driver this is the start of a vGPU VM
        yield Obstacle(why=f"while the driver has lost vGPUs of GPU {ill}", fix=lost.way_out(view.snapshot))
    gpu = view.snapshot.gpu_by_uuid(target.gpu_uuid)
    obstacles = [] if gpu is None else [*preflight.obstacles(view, domain, gpu, gpu.parent_at(target.vf_index))]
    yield from obstacles or preflight.little_room(domain)
