"""An inventory like a large site's: groups by site and by rack, group_vars, and four VMs on each host.

A quarter of the hosts declares a GPU's scheduler. Half of the sites declare their VMs in one file per host (host_vars),
the others beside the host in the site's own file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VMS_OF_A_HOST = 4
HOSTS_OF_A_SITE, HOSTS_OF_A_RACK = 250, 25
SHARES_ONE_IN = 4  # one host in so many declares a scheduler
GPUS = ("0000:41:00.0", "0000:81:00.0")

_ALL = """\
ansible_user: root
ansible_ssh_private_key_file: ~/.ssh/id_ed25519
ansible_ssh_common_args: -o UserKnownHostsFile=~/.ssh/known_hosts -o StrictHostKeyChecking=yes
ntp_servers: [192.0.2.123, 192.0.2.124]
"""
_HYPERVISORS = """\
vgpumgr_policy: spread
vgpumgr_fgpu_per_gpu: {A40: 2, L40S: 4}
"""


def write(folder: Path, hosts: int) -> None:
    """Write an inventory of that many hosts into the folder."""
    for name in ("group_vars", "host_vars"):
        (folder / name).mkdir(parents=True)
    (folder / "group_vars/all.yml").write_text(_ALL, encoding="utf-8")
    (folder / "group_vars/hypervisors.yml").write_text(_HYPERVISORS, encoding="utf-8")
    for site, first in enumerate(range(0, hosts, HOSTS_OF_A_SITE)):
        numbers = range(first, min(hosts, first + HOSTS_OF_A_SITE))
        name = f"site{site:03}"
        (folder / f"group_vars/{name}.yml").write_text(f"vgpumgr_site: {name}\nrack_door: 12{site}\n", encoding="utf-8")
        text = "\n".join([*_site(folder, name, numbers, apart=site % 2 == 0), ""])
        (folder / f"{name}.yml").write_text(text, encoding="utf-8")


def host_name(number: int) -> str:
    return f"kvm{number:05}"


def vm_names(host: str) -> list[str]:
    """The VMs that this host declares."""
    return [f"{host}-vm{number}" for number in range(1, VMS_OF_A_HOST + 1)]


def _site(folder: Path, site: str, numbers: range, *, apart: bool) -> Iterator[str]:
    yield from ("hypervisors:", "  children:", f"    {site}:", "      children:")
    for rack, first in enumerate(range(numbers.start, numbers.stop, HOSTS_OF_A_RACK)):
        yield from (f"        {site}_rack{rack:02}:", "          hosts:")
        for number in range(first, min(numbers.stop, first + HOSTS_OF_A_RACK)):
            host = host_name(number)
            yield f"            {host}:"
            yield f"              ansible_host: 10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            yield f'              asset_tag: "{number:08}"'
            lines = list(_variables(host, shares=number % SHARES_ONE_IN == 0))
            if apart:
                (folder / f"host_vars/{host}.yml").write_text("\n".join([*lines, ""]), encoding="utf-8")
            else:
                yield from (f"              {line}" for line in lines)


def _variables(host: str, *, shares: bool) -> Iterator[str]:
    yield "vgpumgr_vms:"
    for number, vm in enumerate(vm_names(host)):
        yield f"  {vm}:"
        yield "    vgpu0:"
        yield "      profile: 4Q"
        if number == 0:
            yield f'      gpu_id: "{GPUS[0]}"'
    yield "vgpumgr_gpus:"
    yield f'  "{GPUS[0]}": {{mode: equal-size}}'
    yield f'  "{GPUS[1]}":'
    yield "    scheduler: {policy: fixed-share, time_slice: 2ms}" if shares else "    mode: equal-size"
