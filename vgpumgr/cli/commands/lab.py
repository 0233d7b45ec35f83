"""`vgpumgr lab …`: simulated hosts. The work is done in vgpumgr.lab, which is imported when a command runs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from vgpumgr.cli.params import candidates
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import settings_of
from vgpumgr.cli.params.sizes import Bytes
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.hosts import LAB
from vgpumgr.cli.settings import FORMATS
from vgpumgr.core.usage.guest import LICENSES
from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from vgpumgr.lab.layout import Layout

DEFAULT_SPEC = "default"


def _layout(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Layout:
    from vgpumgr.lab.layout import find_layout

    return find_layout(value)


folder_option = click.option(
    "--dir",
    "layout",
    metavar="DIR",
    callback=_layout,
    shell_complete=candidates.folders,
    help="The lab's directory.  [default: $VGPUMGR_LAB, else ./.lab]",
)


_PERCENT = click.FloatRange(0, 100)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def lab() -> None:
    """Simulated hosts: real sshd, libvirtd and NVML clients over a simulated GPU driver.

    \b
    eval "$(vgpumgr lab up)"     bring five hosts up, and point vgpumgr at them
    vgpumgr lab ssh kvm01        a shell on one of them
    vgpumgr lab down             take them down
    """


@lab.command()
@folder_option
@click.option(
    "--spec",
    default=DEFAULT_SPEC,
    show_default=True,
    metavar="NAME|FILE",
    shell_complete=candidates.lab_specs,
    help="What the lab consists of.",
)
@click.option(
    "--like",
    metavar="REPORT",
    shell_complete=candidates.folders,
    help="One host as a report of `host certify` tells, instead of --spec.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0.01, 1),
    default=1.0,
    show_default=True,
    metavar="PACE",
    help="The part of its real time that the driver waits for a plugin; vgpumgr waits for that part, too.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing on stderr unless something fails.")
def up(layout: Layout, spec: str, *, like: str | None, pace: float, quiet: bool) -> None:
    """Start a lab and print the shell's export lines that point vgpumgr at it."""
    if like is not None and spec != DEFAULT_SPEC:
        raise UsageError("--like and --spec cannot be combined", hint="a spec file can have hosts with `like: REPORT`")
    from vgpumgr.lab import fleet

    silent = quiet or settings_of(click.get_current_context()).quiet
    fleet.up(
        layout, like or spec, pace=pace, tell=(lambda _: None) if silent else (lambda line: click.echo(line, err=True))
    )
    for name, value in fleet.environment(layout).items():
        click.echo(f"export {name}={shlex.quote(value)}")


@lab.command()
@folder_option
@click.option("-q", "--quiet", is_flag=True, help="Print nothing unless something fails.")
def down(layout: Layout, *, quiet: bool) -> None:
    """Take the lab down: its processes, mounts, keys and files. It is no error if no lab is up."""
    from vgpumgr.lab import fleet

    was_up = fleet.down(layout)
    if not quiet and not settings_of(click.get_current_context()).quiet:
        click.echo("the lab is down" if was_up else f"no lab in {layout.folder}", err=True)


@lab.command()
@folder_option
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Output format (default: table).")
def status(layout: Layout, output: str | None) -> None:
    """Show what is running."""
    from vgpumgr.documents import offline as documents
    from vgpumgr.lab import fleet

    record = fleet.read(layout)
    hosts = fleet.status(layout)
    settings = settings_of(click.get_current_context())
    settings = replace(settings, output=output or settings.output)
    if settings.for_people:
        click.echo(f"{record.spec} in {layout.folder}")
    printing.print_rows(settings, LAB, documents.lab(layout.folder, record.spec, hosts))


@lab.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@folder_option
@click.argument("host", shell_complete=candidates.lab_hosts)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ssh(layout: Layout, host: str, command: tuple[str, ...]) -> None:
    """Run plain ssh to HOST as root. COMMAND's words are joined by spaces; the exit status is that of ssh.

    Without COMMAND: a shell.
    """
    from vgpumgr.lab import client, fleet

    words = command[1:] if command[:1] == ("--",) else command
    client.become(layout, fleet.read(layout).host(host), words)


@lab.command()
@folder_option
@click.argument("host", shell_complete=candidates.lab_hosts)
@click.option("--driver", metavar="BRANCH", help="It boots with a driver of this branch: 595.")
@click.option("--framework", metavar="NAME", help="It boots with a kernel that has this one: mdev-vf or vendor-vfio.")
@click.option("--renumber", is_flag=True, help="The driver that it boots with gives each vGPU type another one's id.")
def reboot(layout: Layout, host: str, driver: str | None, framework: str | None, *, renumber: bool) -> None:
    """Cut HOST's power and boot it again: the disk stays, vGPUs and guests are lost. Returns when HOST answers."""
    fields = {"driver": driver, "framework": framework, "renumber": "1" if renumber else None}
    _ask(layout, host, "reboot", **{name: value for name, value in fields.items() if value is not None})


@lab.command()
@folder_option
@click.argument("vm")
def start(layout: Layout, vm: str) -> None:
    """Start VM under libvirt: QEMU runs it without KVM, and its mdevs are in use as on a real host. `lab stop` ends it.

    libvirt refuses a VM with a virtual function where it is older than 9.7, as on a real host; `lab hold` is for those.
    """
    host, answer = _ask_of_vm(layout, vm, "start")
    has = f"with {', '.join(answer['devices'])}" if answer["devices"] else "without a vGPU"
    click.echo(f"{vm} on {host} runs {has}", err=True)


@lab.command()
@folder_option
@click.argument("vm")
def hold(layout: Layout, vm: str) -> None:
    """Hold VM's vGPUs as if it ran: a process of its name has /dev/vfio open, and NVML lists it."""
    host, answer = _ask_of_vm(layout, vm, "hold")
    click.echo(f"{vm} on {host} holds {', '.join(answer['devices'])}", err=True)


@lab.command()
@folder_option
@click.argument("vm")
@click.option(
    "--sm",
    type=_PERCENT,
    metavar="PERCENT",
    help="Load of the SMs (graphics and compute), in percent of the whole GPU.",
)
@click.option("--memory", type=_PERCENT, metavar="PERCENT", help="Load of the memory bandwidth, in percent.")
@click.option("--encoder", type=_PERCENT, metavar="PERCENT", help="Load of the video encoders, in percent.")
@click.option("--decoder", type=_PERCENT, metavar="PERCENT", help="Load of the video decoders, in percent.")
@click.option("--fb", "framebuffer", type=Bytes(), help="Framebuffer in use: 2G, 512M, 64K or bytes; units are binary.")
@click.option("--device", metavar="UUID|VF", help="Only this one of VM's vGPUs.  [default: all that it holds]")
def load(layout: Layout, vm: str, device: str | None, **wants: float | None) -> None:
    """Set the load that the guest of a held VM wants; the GPU's scheduler decides how much of it the guest gets.

    A load lasts until the next one, `lab stop`, or a reboot. Engines that are not named are 0, so `--sm 0` alone ends
    it.
    """
    loads = {name: str(value) for name, value in wants.items() if value is not None}
    if not loads:
        raise UsageError("say what the guest wants", hint=f"vgpumgr lab load {vm} --sm 60 --fb 2G")
    host, answer = _ask_of_vm(layout, vm, "load", **loads, **({"device": device} if device else {}))
    for one in answer["loads"]:
        parts = [
            f"{one['gets'][name]:.3g} of {value:g} % {'SM' if name == 'sm' else name}"
            for name, value in one["wants"].items()
            if value
        ]
        parts += [f"{one['framebuffer'] / (1 << 30):.3g} GiB framebuffer"] if one["framebuffer"] else []
        outcome = f"gets {', '.join(parts)} ({one['policy']})" if parts else "is idle"
        click.echo(f"{vm} on {host}: {one['type']} {one['device']} {outcome}", err=True)


@lab.command()
@folder_option
@click.argument("vm")
@click.option("--driver", metavar="VERSION", help="This version of NVIDIA's driver runs: 570.133.20.  [default: none]")
@click.option("--license", type=click.Choice([*LICENSES.values()]), help="The state of its licence.")
@click.option("--expires-in", type=Duration(), help="The licence expires then unless it is renewed: 12h.")
def guest(layout: Layout, vm: str, driver: str | None, license: str | None, expires_in: float | None) -> None:  # noqa: A002 -- the option's name
    """Say which NVIDIA driver runs in the guest of a held VM, and with which licence: NVML on the host reports it.

    It runs until the next `lab guest`, `lab stop`, or a reboot. A guest has none unless this is said.
    """
    if driver is None and (license, expires_in) != (None, None):
        raise UsageError("a licence is the driver's", hint=f"vgpumgr lab guest {vm} --driver 570.133.20 …")
    fields = {"driver": driver, "license": license, "expires_in": None if expires_in is None else str(expires_in)}
    host, _ = _ask_of_vm(layout, vm, "guest", **{name: value for name, value in fields.items() if value is not None})
    runs = "no NVIDIA driver" if driver is None else f"NVIDIA's driver {driver} ({license or 'uninitialized'})"
    click.echo(f"{vm} on {host} runs {runs}", err=True)


@lab.command()
@folder_option
@click.argument("vm")
def stop(layout: Layout, vm: str) -> None:
    """End the processes that hold VM's vGPUs, and the VM if it runs."""
    host, answer = _ask_of_vm(layout, vm, "release")
    click.echo(f"{vm} on {host} {'is stopped' if answer['ended'] else 'did not run'}", err=True)


@lab.command()
@folder_option
@click.argument("host", shell_complete=candidates.lab_hosts)
@click.argument("name", metavar="FAULT")
def fault(layout: Layout, host: str, name: str) -> None:
    """Inject a fault into HOST (several may be active), or `clear` them all.

    \b
    create-eio     the driver refuses every new vGPU with EIO
    own-places     the driver moves no vGPU to another placement id
    late-vfs       after the next reboot the VFs are not there
    card-exchanged:PCI  at the next reboot another card is in that slot
    unbind-lock[:TIMES]  sriov-manage cannot obtain the unbindLock, always or so often
    no-vfs         sriov-manage does nothing and says that all went well
    bound:FUNCTION:DRIVER  another driver than nvidia has the function, or `none`
    iommu-off, sriov-off, no-vgpu-module
                   no IOMMU groups; no SR-IOV; nvidia_vgpu_vfio is not loaded
    libvirtd-down  libvirtd is killed
    ssh-refused    nothing listens on the ssh port
    ssh-hang       the ssh port accepts connections but never answers
    garbage        each login prints unrelated text, whatever command was sent
    slow-plugin:SECONDS  the vGPU's plugin outlives `lab stop` by this time
    slow-exit:SECONDS    QEMU takes this time to exit after `lab stop`, still holding the vGPU
    nvml-down, gpu-lost:PCI, nvml:FUNCTION:CODE[:PCI]
                         what NVML answers
    answers:BELIEF:VALUE  what the driver answers to a belief of `host certify`
    """
    if name == "clear":
        _ask(layout, host, "clear")
    else:
        _ask(layout, host, "fault", name=name)


def _ask_of_vm(layout: Layout, vm: str, op: str, **fields: str) -> tuple[str, dict[str, Any]]:
    """Ask the host that has the VM. Returns the host's name and answer."""
    from vgpumgr.lab import fleet

    host = fleet.find_vm_host(layout, vm).name
    return host, _ask(layout, host, op, vm=vm, **fields)


def _ask(layout: Layout, host: str, op: str, **fields: str) -> dict[str, Any]:
    from vgpumgr.lab import fleet
    from vgpumgr.lab.machine import control

    lab_host = fleet.read(layout).host(host)
    return control.ask(layout.host(lab_host.name), op, fields)
