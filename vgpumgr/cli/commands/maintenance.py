"""The commands cordon, uncordon and drain."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates, gpus
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output
from vgpumgr.errors import worst_exit

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import Consent, FleetPlan

_HOST = click.argument("host", shell_complete=candidates.host)
_GPU = gpus.one("Only this GPU of the host.")
_VF = click.option("--vf", metavar="PCI", help="Only this virtual function of a GPU.")


@click.command()
@click.argument("host", required=False, shell_complete=candidates.host)
@_GPU
@_VF
@click.option("--reason", metavar="TEXT", help="Why; everybody who meets the cordon sees it.")
@common_options
def cordon(settings: Settings, *, host: str | None, gpu_id: str | None, vf: str | None, reason: str | None) -> int:
    """Keep new vGPUs from HOST, from one of its GPUs, or from one virtual function. What is there stays. Without HOST:
    list the cordons of all hosts.

    \b
      vgpumgr cordon
      vgpumgr cordon kvm01 --reason 'kernel update on Monday'
      vgpumgr cordon kvm01 --gpu-id 0000:41:00.0 --reason 'ECC errors'
      vgpumgr cordon kvm01 --vf 0000:41:00.5 --reason 'its VMs fail'

    The host itself keeps it, with your name and the time, so every controller honours it, also after a reboot: attach
    is refused (exit 5), reconcile makes nothing new there, capacity counts nothing there as free. `vgpumgr uncordon`
    ends it.
    """
    from vgpumgr.core.gpu.cordon_plan import parse_reason

    if host is None and gpu_id is None and vf is None and reason is None:
        return _list(settings)
    if host is None or reason is None:
        missing = "argument HOST" if host is None else "option '--reason'"
        raise click.UsageError(f"missing {missing}", click.get_current_context())
    return _set(settings, host, gpu_id, vf, parse_reason(reason))


@click.command()
@_HOST
@_GPU
@_VF
@common_options
def uncordon(settings: Settings, *, host: str, gpu_id: str | None, vf: str | None) -> int:
    """Let HOST, one of its GPUs, or one virtual function take new vGPUs again.

    \b
      vgpumgr uncordon kvm01
      vgpumgr uncordon kvm01 --gpu-id 0000:41:00.0
      vgpumgr uncordon kvm01 --vf 0000:41:00.5

    Each cordon ends separately. For a GPU that was taken out, give its old address or UUID.
    """
    return _set(settings, host, gpu_id, vf, None)


@click.command()
@_HOST
@_GPU
@click.option(
    "--reason",
    default="being drained",
    show_default=True,
    metavar="TEXT",
    help="Why. An existing cordon keeps its reason.",
)
@click.option("--wait", type=Duration(least=0), default="0s", metavar="TIME", help="Wait for VMs to stop: 10m, 2h.")
@click.option("--vf", hidden=True)
@common_options
def drain(settings: Settings, *, host: str, gpu_id: str | None, reason: str, wait: float, vf: str | None) -> int:
    """Cordon HOST, or one of its GPUs, and say what is in the way of working on it. VMs that run are never touched.

    \b
      vgpumgr drain kvm01 --check
      vgpumgr drain kvm01 --reason 'kernel update' --wait 30m && ssh kvm01 reboot
      vgpumgr drain kvm02 --gpu-id 0000:41:00.0 --reason 'ECC errors'

    Draining a host leaves its idle vGPUs, which come back after a reboot. Draining a GPU, which may be taken out, moves
    them to other GPUs of the host; the command asks before it moves any. Exit 5 while anything is in the way: a VM that
    runs, a vGPU that is not ours, one that fits nowhere else.
    """
    from vgpumgr.cli.rows import printing
    from vgpumgr.cli.rows.vgpus import DRAIN
    from vgpumgr.cli.text import drain_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import drain as use_case
    from vgpumgr.core.gpu.cordon_plan import parse_reason
    from vgpumgr.documents import change as documents
    from vgpumgr.errors import UsageError

    if vf is not None:
        raise UsageError(
            "drain empties a host or a GPU, not one virtual function",
            hint="`vgpumgr cordon HOST --vf PCI` keeps new vGPUs from it, and `vgpumgr detach VM` frees it",
        )
    options = use_case.DrainOptions(host=host, gpu_id=gpus.parsed(gpu_id), reason=parse_reason(reason), wait_s=wait)
    start = time.monotonic()
    result = use_case.drain(build_context(settings), options, _consent(settings))
    output.print_findings(settings, result.findings)
    if result.rows or not settings.for_people:
        printing.print_rows(settings, DRAIN, documents.drain(result))
    codes = [3 if settings.check and result.fleet.changed else 0]
    if result.error is not None:
        output.print_error(settings, drain_text.beside_rows(result.error) if settings.for_people else result.error)
        codes.append(result.error.exit_code)
    elif settings.for_people:
        output.echo(drain_text.closing(result, time.monotonic() - start))
    return worst_exit(codes)


def _consent(settings: Settings) -> Consent[FleetPlan]:
    """The consent of drain. It is used only if something is moved."""
    from vgpumgr.cli.text import drain_text, fleet_text
    from vgpumgr.controller.results import Consent

    def show(fleet: FleetPlan) -> None:
        if settings.for_people:
            for plan in fleet.plans:
                for line in fleet_text.host_lines(plan, diff=settings.diff):
                    output.echo(line)

    def ask(fleet: FleetPlan) -> None:
        what = drain_text.question(fleet)
        asking.confirm(settings, f"Move {what}?", why=f"drain moves {what}", hint=asking.SEE_FIRST)

    return Consent(check=settings.check, show=show, ask=ask, given=settings.yes)


def _list(settings: Settings) -> int:
    from vgpumgr.cli.rows import printing
    from vgpumgr.cli.rows.gpus import CORDONS
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import maintenance as use_case
    from vgpumgr.documents import hosts as documents

    fleet = use_case.cordons(build_context(settings))
    none = output.none_on("no cordon", [host.host for host in fleet.views])
    printing.print_rows(settings, CORDONS, documents.cordons(fleet), none=none)
    return output.end(settings, fleet)


def _set(settings: Settings, host: str, gpu_id: str | None, vf: str | None, reason: str | None) -> int:
    from vgpumgr.cli.rows import change_result
    from vgpumgr.cli.rows.gpus import CORDON
    from vgpumgr.cli.text import cordon_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import maintenance as use_case
    from vgpumgr.core.reconcile.tasks import SetCordon
    from vgpumgr.errors import UsageError
    from vgpumgr.names import parse_pci_address

    if gpu_id is not None and vf is not None:
        raise UsageError("give either --gpu-id or --vf", hint="a virtual function's address says which GPU it is of")
    task = SetCordon(gpu_id=gpus.parsed(gpu_id), vf=None if vf is None else parse_pci_address(vf), reason=reason)
    start = time.monotonic()
    verb = "uncordon" if reason is None else "cordon"
    consent = asking.consent(settings, verb, cordon_text.lines, question=f"{verb.capitalize()} {{about}} on {{host}}?")
    result = use_case.cordon(build_context(settings), host, task, consent)
    last_lines = cordon_text.closing(result, time.monotonic() - start)
    return change_result.print_rows(settings, result, last_lines, CORDON)
