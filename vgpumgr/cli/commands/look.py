"""The commands list, show, discover, profiles and render. They only read."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import candidates, choosing, rows
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.gpus import DISCOVER
from vgpumgr.cli.rows.profiles import PROFILES, TYPES
from vgpumgr.cli.rows.things import HOSTDEVS
from vgpumgr.cli.rows.vgpus import LIST, SHOW
from vgpumgr.cli.text import output, unread_text
from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.model.view import HostView
    from vgpumgr.validation import Accepted

_PROFILE = ("profile", "framebuffer", "per_gpu", "fits_now")


@click.command("list")
@choosing.vms_or_hosts()
@choosing.on("Only what is on these hosts.")
@rows.options(LIST)
@common_options
def list_command(settings: Settings, *, chosen: tuple[str, ...], on: str | None) -> int:
    """List the vGPUs of the hosts, or of the VMs and hosts named: ours, and foreign ones, which are never changed.

    \b
      vgpumgr list
      vgpumgr list vm01 'web*'
      vgpumgr list 'rack1:!kvm07'

    Owner and state need libvirt; `discover` shows a host's GPUs without it.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.documents import vms as documents

    listing = report.list_vgpus(build_context(settings), chosen, on)
    if listing.named:
        none = "" if listing.unknown else f"no vGPUs of {' '.join(listing.named)}"
    else:
        none = output.none_on("no vGPUs", [host.host for host in listing.fleet.views])
    printing.print_rows(settings, LIST, documents.vgpus(listing), none=none)
    return output.end(settings, listing.fleet, listing.findings, listing.unknown)


@click.command()
@click.argument("vm", shell_complete=candidates.vms)
@choosing.on("Where to look for the VM.")
@rows.options(SHOW)
@common_options
def show(settings: Settings, *, vm: str, on: str | None) -> int:
    """One VM: what was requested, what it has, and any findings."""
    from vgpumgr import names
    from vgpumgr.cli.text.grants import granted
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.model import claims as claims_of
    from vgpumgr.documents import vms as documents

    vm_view = report.show_vm(build_context(settings), names.parse_vm_name(vm), on)
    claims = vm_view.domain.claims.claims if vm_view.domain.claims else ()
    if settings.for_people:
        where = f"{vm_view.view.snapshot.host} ({vm_view.domain.condition})"
        output.echo(f"{vm_view.domain.name} on {where}, {vm_view.domain.uuid}")
        for claim in claims:
            output.echo(
                f"  {claim.slot}: requested {claim.asked} by {claim.by} at {claim.at}, {claim.state}"
                + (f", {granted(claim.grant)}" if claim.grant else "")
                + ("" if claim.origin == claims_of.ATTACH else f", {claims_of.said_by(claim)}")
            )
        if not vm_view.rows:
            output.echo("  no vGPU")
    if vm_view.rows or not settings.for_people:
        printing.print_rows(settings, SHOW, documents.show(vm_view))
    output.print_findings(settings, vm_view.findings)
    return output.print_errors(settings, vm_view.errors)


@click.command()
@choosing.hosts()
@choosing.on("Only these hosts; the same as the arguments.")
@rows.options(DISCOVER)
@common_options
def discover(settings: Settings, *, hosts: tuple[str, ...], on: str | None) -> int:
    """The hosts' GPUs: board, framework, mode, how many vGPUs they hold, and what could not be read."""
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.evidence import blocked_write, cordons, fabric, lost
    from vgpumgr.core.placing import health, places
    from vgpumgr.documents import hosts as documents

    hosts = choosing.either(hosts, () if on is None else (on,), "--on")
    fleet = report.discover_fleet(build_context(settings), hosts)
    findings = [
        finding
        for view in fleet.views
        for part in (blocked_write, health, fabric, lost, places, cordons)
        for finding in part.findings(view.snapshot)
    ]
    findings += [finding for view in fleet.views for finding in view.shared]
    none = output.none_on("no NVIDIA GPU", [view.snapshot.host for view in fleet.views])
    printing.print_rows(settings, DISCOVER, documents.discover(fleet, findings), none=none)
    if settings.for_people:
        for view in fleet.views:
            for line in unread_text.unread(view.snapshot):
                output.progress(settings, line)
    return output.end(settings, fleet, findings)


@click.command("profiles")
@choosing.hosts()
@click.option("--fits", is_flag=True, help="Only what fits now.")
@click.option(
    "--offline", is_flag=True, help="NVIDIA's list of types, with computed placement ids. No host is contacted."
)
@click.option(
    "--board", metavar="BOARD", shell_complete=candidates.boards, help="With --offline: only this board (A40)."
)
@rows.options(PROFILES, TYPES)
@common_options
def profiles_command(
    settings: Settings, *, hosts: tuple[str, ...], fits: bool, offline: bool, board: str | None
) -> int:
    """The profiles that the hosts have: size, how many a GPU takes, and how many fit now on all of them.

    One line for each profile; -o wide has one for each profile of each GPU, and so have csv and json, also for what
    needs MIG mode. `vgpumgr capacity` says where and why not.

    With --offline: every type that NVIDIA lists, how many of it an empty GPU takes in each mode, and at which placement
    ids. The host's own lists decide when a vGPU is made.
    """
    if offline:
        return _known_types(settings, board, asked_of_hosts=bool(hosts) or fits)
    if board is not None:
        raise UsageError("--board needs --offline", hint="without it, name hosts: their GPUs' profiles are shown")
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.report import capacity
    from vgpumgr.documents import offer as documents

    context = build_context(settings)
    _not_profiles(hosts, context.inventory.hosts)
    if settings.output != "table" or settings.columns or settings.sorted_by:
        fleet = report.look_for_room(context, hosts, lambda view: _profile_rows(view, fits=fits))
        of_gpus = [row for part in fleet.views for row in part]
        printing.print_rows(settings, PROFILES, documents.profiles(fleet, of_gpus))
        return output.end(settings, fleet)
    from vgpumgr.cli.text import capacity_text

    overviews = report.look_for_room(context, hosts, capacity.overview)
    sums = capacity.together(overviews.views)
    lines = capacity_text.profiles(sums, capacity.totals(sums, unread=bool(overviews.errors)), fits=fits)
    if lines:
        printing.print_table(settings, lines, _PROFILE)
    elif overviews.views:
        output.echo("nothing fits now" if fits else "no vGPU type could be read")
    for one in sums.closed:
        output.progress(settings, capacity_text.closed(one), host=one.host)
    return output.end(settings, overviews)


@click.command()
@click.argument("vm", shell_complete=candidates.vms)
@click.option("--slot", metavar="NAME", shell_complete=candidates.slots, help="Only this slot.")
@choosing.on("Where to look for the VM.")
@click.option(
    "--validate", "validated", is_flag=True, help="Hold it against libvirt's schema and parser on this machine."
)
@common_options
def render(settings: Settings, *, vm: str, slot: str | None, on: str | None, validated: bool) -> int:
    """The hostdev XML of VM's claims, exactly as it is passed to libvirt. Read-only.

    With --validate, libvirt itself says whether it accepts each hostdev, and a domain with all of them. That needs
    libvirt-python here, and counts for this machine's version of libvirt: the host may have another
    (`vgpumgr discover -o json`).
    """
    from vgpumgr import names
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.documents import vms as documents

    validate = _validator() if validated else None
    vm_view = report.show_vm(build_context(settings), names.parse_vm_name(vm), on)
    hostdevs = report.render_slots(vm_view, None if slot is None else names.parse_slot(slot))
    accepted = validate(hostdevs) if validate else None
    if settings.for_people:
        for _, xml in hostdevs:
            output.block(xml)
        if accepted:
            for what in accepted.documents:
                output.progress(settings, f"libvirt {accepted.version} accepts {what}")
        return 0
    document = documents.render(vm_view.domain.name, hostdevs, validated_by=accepted.version if accepted else None)
    printing.print_rows(settings, HOSTDEVS, document)
    return 0


def _validator() -> Callable[[Iterable[tuple[str, str]]], Accepted]:
    try:
        from vgpumgr.validation import validate
    except ImportError as error:
        raise UsageError(
            "--validate needs libvirt-python, which cannot be imported here",
            details=[str(error)],
            hint="as root: apt-get install gcc libc6-dev libvirt-dev pkg-config python3-dev; "
            f"then {shlex.quote(sys.executable)} -m pip install libvirt-python",
        ) from error
    return validate


def _profile_rows(view: HostView, *, fits: bool) -> list[dict[str, object]]:
    from vgpumgr.core.evidence import sharing
    from vgpumgr.core.slot import how_many
    from vgpumgr.documents import offer as documents

    barred = sharing.barred_functions(view)
    profiles: list[dict[str, object]] = []
    for gpu in view.snapshot.gpus:
        room = how_many.of_types(view, gpu, barred)
        kinds = sorted((gpu.types or {}).values(), key=lambda kind: (kind.size_mib or 0, kind.short))
        profiles += [
            documents.profile(view.snapshot.host, gpu, kind, room[kind.id])
            for kind in kinds
            if room[kind.id] != 0 or not fits
        ]
    return profiles


def _not_profiles(texts: Iterable[str], hosts: Container[str]) -> None:
    """Raises UsageError if a text is no host but a profile. The hint names the command for profiles."""
    from vgpumgr.core.driver import profiles
    from vgpumgr.errors import BadName

    for text in texts:
        if text in hosts:
            continue
        try:
            profiles.parse_profile(text)
        except BadName:
            continue
        raise UsageError(f"{text} is a profile, not a host", hint=f"`vgpumgr capacity {text}` says where it fits")


def _known_types(settings: Settings, board: str | None, *, asked_of_hosts: bool) -> int:
    from vgpumgr import resources
    from vgpumgr.core.driver import catalogue, known_types
    from vgpumgr.documents import offline as documents

    if asked_of_hosts:
        raise UsageError("--offline contacts no host: it combines with neither HOST nor --fits")
    types = known_types.known_types(catalogue.parse(resources.catalogue_text()), board)
    printing.print_rows(settings, TYPES, documents.types(types))
    return 0
