"""The commands attach and detach."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import asking, candidates, choosing, gpus, plan_files, several, wishes
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options, is_given
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.core.slot.plan import Plan


@click.command()
@several.options
@wishes.options
@wishes.param_option
@click.option(
    "--slot",
    default=DEFAULT_SLOT,
    show_default=True,
    metavar="NAME",
    shell_complete=candidates.slots,
    help="Which of the VM's vGPUs.",
)
@click.option(
    "--count",
    type=Whole(1, 16),
    default=1,
    metavar="N",
    help="This many vGPUs, in the slots vgpu0, vgpu1 …: all or none.",
)
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the slot's vGPU: the new one is made before the old one is removed, if there is room. The command asks before it replaces anything.",
)
@choosing.on("Where to look for the VM. A vGPU is only ever made on its VM's own host.")
@gpus.one("Use only this GPU of the host.")
@wishes.policy_option
@click.option("--reservation", metavar="NAME", help="Take a place that `vgpumgr reserve` keeps under this name.")
@click.option(
    "--wait",
    is_flag=True,
    help="If the host has no room, note the wish: `reconcile` serves it once there is (`vgpumgr waiting`).",
)
@click.option(
    "--even-if-it-will-not-start",
    is_flag=True,
    help="Attach even if the VM cannot start with it on this host as it is (its libvirt, kernel, IOMMU, VFIO, or the VM's memtune).",
)
@click.option(
    "--live",
    is_flag=True,
    help="Also plug it into the running VM, not only at its next start. The command asks before it does that, and refuses if anything prevents it.",
)
@plan_files.out_option
@plan_files.plan_option
@common_options
def attach(
    settings: Settings,
    *,
    vms: tuple[str, ...],
    file: str | None,
    partial: bool,
    slot: str,
    count: int,
    replace: bool,
    on: str | None,
    gpu_id: str | None,
    policy: str | None,
    reservation: str | None,
    wait: bool,
    even_if_it_will_not_start: bool,
    live: bool,
    out: str | None,
    plan_file: str | None,
    **asked: str | bool | None,
) -> int:
    """Attach a vGPU to each VM: create it on the VM's host and add it to the VM's definition.

    \b
      vgpumgr attach vm01 --profile 4Q
      vgpumgr attach vm01 --gpu-memory 4G
      vgpumgr attach vm01 --gpu 0.25 --max-waste 10
      vgpumgr attach vm01 --profile A40-8Q --slot vgpu1 --gpu-id 0000:81:00.0
      vgpumgr attach vm01 --profile 4Q --check
      vgpumgr attach vm01 vm02 'vm[05:20]' --profile 4Q
      vgpumgr attach -f vms.yml --partial

    A running VM gets it at its next start, or at once with --live. Repeating the command changes nothing. Of several
    VMs, all are served or none. If no PCIe root port of the VM is free, libvirt adds one to its definition.
    """
    from vgpumgr import names
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import attach as use_case
    from vgpumgr.core.slot.request import Replace, SlotRequest
    from vgpumgr.core.slot.reserving import parse_name

    if count > 1 and is_given("slot"):
        raise errors.UsageError(
            "--slot and --count cannot be combined", hint="--count names the slots itself: vgpu0, vgpu1 …"
        )
    if wait:
        _guard_wait("replace", "gpu_id", "policy", "reservation", "live", "even_if_it_will_not_start")
    if file is None and not any(asked.values()):
        wishes.guard_profile_as_vm(vms)
    vm = several.only_one(vms, file)
    each = SlotRequest(
        vm="",
        wish=None,
        slot=names.parse_slot(slot),
        on=on,
        gpu_id=gpu_id,
        policy=policy,
        reservation=None if reservation is None else parse_name(reservation),
        replace=Replace.ALWAYS if replace else Replace.NEVER,
        even_if_it_will_not_start=even_if_it_will_not_start,
        live=live,
        count=count,
        wait=wait,
    )
    if vm is None:
        from vgpumgr.cli.commands import several as many

        return many.attach(settings, vms, file, asked, each, partial=partial, out=out, plan_file=plan_file)
    wish, conditions = wishes.read(vm, asked)
    request = dataclasses.replace(
        each, vm=names.parse_vm_name(vm), wish=wish, conditions=conditions, may_set_scheduler=True
    )
    plan_files.guard_out(settings, out)
    what = "attach" + (" --replace" if replace else "") + (" --live" if live else "")
    question = "Replace the vGPU of {about}" if replace else "Attach a vGPU to {about}"
    consent = _consent(settings, what, plan_file, question)
    start = time.monotonic()
    result = use_case.attach(build_context(settings), request, consent)
    undo = None if replace or live else _undo(result, slot, count, on)
    return _print_result(settings, result, start, undo=undo, out=out)


def _undo(result: ChangeResult[Plan], slot: str, count: int, on: str | None) -> str | None:
    """The detach command for just the new vGPUs. None if several are new and the VM already had others."""
    from vgpumgr.core.commands import command

    plan, all_of_it = result.planned.plan, len(result.rows)
    if count == 1:
        return command("detach", plan.vm.name, slot=slot if all_of_it > 1 else None, on=on)
    vgpus = sum(part.placed is not None for part in plan.parts)
    options = ("--all",) if all_of_it > 1 else ()
    return command("detach", plan.vm.name, on=on, options=options) if vgpus == all_of_it else None


@click.command()
@several.options
@click.option(
    "--slot",
    metavar="NAME",
    shell_complete=candidates.slots,
    help="Which of the VM's vGPUs; not needed if it has only one.",
)
@click.option("--all", "every", is_flag=True, help="All of the VM's vGPUs.")
@choosing.on("Where to look for the VM.")
@click.option("--keep-snapshots", is_flag=True, help="Detach even if snapshots name the device; they become unusable.")
@click.option("--live", is_flag=True, help="Take it out of the VM while it runs. Needs --force-live-detach.")
@click.option(
    "--force-live-detach",
    is_flag=True,
    help="With --live: do it, although a guest that uses its GPU may hang or crash.",
)
@plan_files.out_option
@plan_files.plan_option
@common_options
def detach(
    settings: Settings,
    *,
    vms: tuple[str, ...],
    file: str | None,
    partial: bool,
    slot: str | None,
    every: bool,
    on: str | None,
    keep_snapshots: bool,
    live: bool,
    force_live_detach: bool,
    out: str | None,
    plan_file: str | None,
) -> int:
    """Remove each VM's vGPU from its definition and free it on the host.

    The command asks before it removes anything. It refuses while anything uses the vGPU.
    PCIe root ports that libvirt added for it stay in the definition, empty.

    \b
      vgpumgr detach vm01
      vgpumgr detach vm01 --slot vgpu1 --yes
      vgpumgr detach 'vm[01:20]' --all
      vgpumgr detach 'web*' '!web03'
      vgpumgr detach -f vms.yml

    Of several VMs, all are freed or none.
    """
    from vgpumgr import names
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import attach as use_case
    from vgpumgr.core.slot.request import SlotRequest

    if slot is not None and every:
        raise errors.UsageError("--slot and --all cannot be combined", hint="name one slot, or use --all")
    _guard_force(live=live, force=force_live_detach)
    vm = several.only_one(vms, file)
    each = SlotRequest(
        vm="",
        wish=None,
        slot=None if slot is None else names.parse_slot(slot),
        on=on,
        keep_snapshots=keep_snapshots,
        every=every,
        live=live,
    )
    if vm is None:
        from vgpumgr.cli.commands import several as many

        return many.detach(settings, vms, file, each, partial=partial, out=out, plan_file=plan_file)
    request = dataclasses.replace(each, vm=names.parse_vm_name(vm))
    plan_files.guard_out(settings, out)
    consent = _consent(settings, "detach --live" if live else "detach", plan_file, "Detach the vGPU of {about}")
    start = time.monotonic()
    result = use_case.detach(build_context(settings), request, consent)
    return _print_result(settings, result, start, undo=None, out=out)


def _guard_wait(*others: str) -> None:
    """Raises UsageError if --wait comes with one of these options: a later attach would not know the option."""
    for name in filter(is_given, others):
        raise errors.UsageError(
            f"--wait and --{name.replace('_', '-')} cannot be combined",
            hint="what waits is attached later as a plain attach would do it",
        )


def _guard_force(*, live: bool, force: bool) -> None:
    """A live detach needs both options. Raises UsageError or NotWhileRunning if only one is given."""
    if force and not live:
        raise errors.UsageError("--force-live-detach is for --live", hint="add --live, or leave both out")
    if live and not force:
        raise errors.NotWhileRunning(
            "detach --live takes a GPU from a guest that may be using it, and needs --force-live-detach; nothing was changed",
            hint="shut the VM down and detach, which is safe; or add --force-live-detach",
        )


def _consent(settings: Settings, what: str, plan_file: str | None, question: str) -> Consent[Planned[Plan]]:
    def lines(planned: Planned[Plan]) -> Iterator[str]:
        from vgpumgr.cli.text import plan_text

        return plan_text.lines(planned, diff=settings.diff)

    sentence = f"{question}{', which runs,' if what.endswith('--live') else ''} on {{host}}?"
    return asking.consent(settings, what, lines, question=sentence, kept=plan_files.read(plan_file))


def _print_result(
    settings: Settings, result: ChangeResult[Plan], start: float, *, undo: str | None, out: str | None
) -> int:
    from vgpumgr.cli.rows import change_result
    from vgpumgr.cli.text import plan_text

    if out is not None:
        from vgpumgr.documents import change

        plan_files.write(out, change.document(result, check=settings.check))
    last_lines = plan_text.closing(result, time.monotonic() - start, undo)
    empty = {"vm": result.planned.plan.vm.name, "host": result.planned.host}
    return change_result.print_vgpus(settings, result, last_lines, empty)
