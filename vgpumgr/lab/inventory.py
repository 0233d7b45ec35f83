"""The lab's inventory: plain Ansible, as a site would write it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.lab.client import common_arguments
from vgpumgr.lab.machine.sshd import ADDRESS

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.lab.layout import LabRecord, Layout
    from vgpumgr.lab.spec import FleetSpec


def write_inventory(layout: Layout, record: LabRecord, fleet: FleetSpec) -> None:
    """Write hosts.yml, and host_vars/HOST.yml with the declarations of the spec."""
    hosts: dict[str, dict[str, Any]] = {}
    for spec in fleet.hosts:
        hosts[spec.name] = {"ansible_host": ADDRESS, "ansible_port": record.host(spec.name).port}
        if spec.via:
            chain = ",".join(f"root@{ADDRESS}:{record.host(jump).port}" for jump in spec.via)
            hosts[spec.name]["ansible_ssh_common_args"] = f"{common_arguments(layout)} -o ProxyJump={chain}"
    variables: dict[str, Any] = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(layout.key),
        "ansible_ssh_common_args": common_arguments(layout),
    }
    if any(gpu.framework == VENDOR_VFIO for host in fleet.hosts for gpu in host.gpus):
        variables["vgpumgr_even_if_it_will_not_start"] = True  # this machine's libvirt may be older than 9.7
    host_vars = layout.inventory / "host_vars"
    host_vars.mkdir(parents=True)
    _write(layout.inventory / "hosts.yml", {"hypervisors": {"hosts": hosts, "vars": variables}})
    for host, vms in fleet.declared.items():
        plain = {vm: {slot: dict(wish) for slot, wish in slots.items()} for vm, slots in vms.items()}
        _write(host_vars / f"{host}.yml", {"vgpumgr_vms": plain})


def _write(file: Path, data: dict[str, Any]) -> None:
    import yaml  # only `lab up` writes one

    file.write_text(yaml.safe_dump(data, sort_keys=False, width=120), encoding="utf-8")
