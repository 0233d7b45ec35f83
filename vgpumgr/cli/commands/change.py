"""attach and detach."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import asking, candidates, plan_files
from vgpumgr.cli.params.options import common_options
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.core.plan.plan import Plan


@click.command()
@click.argument("vm", shell_complete=candidates.vms)
@click.option(
    "--profile",
    required=True,
    metavar="PROFILE",
    shell_complete=candidates.profiles,
    help="4Q, A40-4Q or 'NVIDIA A40-4Q'.",
)
@click.option(
    "--slot",
    default=DEFAULT_SLOT,
    show_default=True,
    metavar="NAME",
    shell_complete=candidates.slots,
    help="Which of the VM's vGPUs.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the slot's vGPU: creates the new one before removing the old one. Asks first.",
)
@click.option(
    "--on",
    metavar="HOST",
    shell_complete=candidates.hosts,
    help="Where to look for the VM. A vGPU is only ever made on its VM's own host.",
)
@click.option("--gpu-id", metavar="PCI|UUID", shell_complete=candidates.gpus, help="Use only this GPU of the host.")
@click.option(
    "--even-if-it-will-not-start",
    is_flag=True,
    help="Attach even if the host's libvirt (before 9.7) or kernel (before 6.1) cannot start a VM with it.",
)
@plan_files.out_option
@plan_files.plan_option
@common_options
def attach(
    settings: Settings,
    *,
    vm: str,
    profile: str,
    slot: str,
    replace: bool,
    on: str | None,
    gpu_id: str | None,
    even_if_it_will_not_start: bool,
    out: str | None,
    plan_file: str | None,
) -> int:
    """Attach a vGPU to VM: create it on the VM's host and add it to the VM's definition.

    \b
      vgpumgr attach vm01 --profile 4Q
      vgpumgr attach vm01 --profile A40-8Q --slot vgpu1 --gpu-id 0000:81:00.0
      vgpumgr attach vm01 --profile 4Q --check

    A running VM gets it at its next start. Repeating the command changes nothing.
    """
    from vgpumgr import names
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import attach as use_case
    from vgpumgr.core.commands import command
    from vgpumgr.core.driver import profiles

    options = use_case.AttachOptions(
        vm=names.parse_vm_name(vm),
        profile=profiles.parse_profile(profile),
        slot=names.parse_slot(slot),
        on=on,
        gpu_id=gpu_id,
        replace=replace,
        even_if_it_will_not_start=even_if_it_will_not_start,
    )
    plan_files.guard_out(settings, out)
    consent = _consent(settings, "attach --replace" if replace else "attach", plan_file)
    started = time.monotonic()
    result = use_case.attach(build_context(settings), options, consent)
    several = len(result.rows) > 1
    undo = command("detach", result.planned.plan.vm.name, slot=slot if several else None, on=on)
    return _print_result(settings, result, started, undo=None if replace else undo, out=out)


@click.command()
@click.argument("vm", shell_complete=candidates.vms)
@click.option(
    "--slot",
    metavar="NAME",
    shell_complete=candidates.slots,
    help="Which of the VM's vGPUs; not needed if it has only one.",
)
@click.option("--all", "every", is_flag=True, help="All of the VM's vGPUs.")
@click.option("--on", metavar="HOST", shell_complete=candidates.hosts, help="Where to look for the VM.")
@click.option("--keep-snapshots", is_flag=True, help="Detach even if snapshots name the device; they become unusable.")
@plan_files.out_option
@plan_files.plan_option
@common_options
def detach(
    settings: Settings,
    *,
    vm: str,
    slot: str | None,
    every: bool,
    on: str | None,
    keep_snapshots: bool,
    out: str | None,
    plan_file: str | None,
) -> int:
    """Remove VM's vGPU from its definition and free it on the host. Refused while anything uses the vGPU.

    PCIe root ports that libvirt added for it stay in the definition, empty.

    \b
      vgpumgr detach vm01
      vgpumgr detach vm01 --slot vgpu1 --yes
    """
    from vgpumgr import names
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import attach as use_case

    if slot is not None and every:
        raise errors.UsageError("--slot and --all cannot be combined", hint="name one slot, or use --all")
    options = use_case.DetachOptions(
        vm=names.parse_vm_name(vm),
        slot=None if slot is None else names.parse_slot(slot),
        every=every,
        on=on,
        keep_snapshots=keep_snapshots,
    )
    plan_files.guard_out(settings, out)
    consent = _consent(settings, "detach", plan_file)
    started = time.monotonic()
    result = use_case.detach(build_context(settings), options, consent)
    return _print_result(settings, result, started, undo=None, out=out)


def _consent(settings: Settings, what: str, plan_file: str | None) -> Consent[Planned[Plan]]:
    def lines(planned: Planned[Plan]) -> Iterator[str]:
        from vgpumgr.cli.text import plan_text

        return plan_text.lines(planned, diff=settings.diff)

    return asking.consent(settings, what, lines, kept=plan_files.read(plan_file))


def _print_result(
    settings: Settings, result: ChangeResult[Plan], started: float, *, undo: str | None, out: str | None
) -> int:
    from vgpumgr.cli.text import change_result, plan_text

    if out is not None:
        from vgpumgr.documents import change

        plan_files.write(out, change.document(result, check=settings.check))
    closing = plan_text.closing(result, time.monotonic() - started, undo)
    empty = {"vm": result.planned.plan.vm.name, "host": result.planned.host}
    return change_result.print_vgpus(settings, result, closing, empty)
