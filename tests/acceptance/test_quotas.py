"""Owners and quotas over several hosts: what counts, what is refused with which words, and what it costs."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document
from vgpumgr import errors
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.wiring import build_context
from vgpumgr.controller.attach import attach
from vgpumgr.controller.reconcile import ReconcileOptions, reconcile
from vgpumgr.controller.requests import apply_requests
from vgpumgr.controller.results import Consent
from vgpumgr.controller.together import TogetherOptions, serve_together
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.names import Slot
from vgpumgr.store.only_one import QUOTAS, only_one

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from tests.acceptance.near import Near, Sites
    from vgpumgr.controller.context import Context
    from vgpumgr.errors import VgpumgrError

HOSTS = {
    "kvm01": NearHost(vms=("vm01", "vm02", "vm03")),
    "kvm02": NearHost(vms=("vm11", "vm12", "vm13")),
    "kvm03": NearHost(vms=("vm21", "vm22")),
}
TEAM_A = {"vgpumgr_owner": "team-a"}


@pytest.fixture
def site(near_site: Sites) -> Near:
    """Three hosts; those of two are team-a's, which may have 16 GiB in 3 vGPUs."""
    found = near_site(HOSTS)
    give(found, "{memory: 16G, vgpus: 3}")
    for host in ("kvm01", "kvm02"):
        found.declare(host, **TEAM_A)
    return found


def give(site: Near, quota: str) -> None:
    (site.inventory / "group_vars").mkdir(exist_ok=True)
    (site.inventory / "group_vars/all.yml").write_text(f"vgpumgr_quota: {{team-a: {quota}}}\n")


def declared(profile: str, *vms: str) -> dict[str, object]:
    return TEAM_A | {"vgpumgr_vms": {vm: {"vgpu0": {"profile": profile}} for vm in vms}}


def held(site: Near) -> list[tuple[str, str]]:
    return [(row["vm"], row["type_name"]) for row in document(site, "list")["vgpus"]]


def test_an_attach_over_the_quota_is_refused_with_what_is_held_and_where(site: Near) -> None:
    vgpumgr(site, "attach", "vm01", "--profile", "8Q")
    vgpumgr(site, "attach", "vm11", "--profile", "4Q")
    before = [site.trace(host) for host in HOSTS]
    refused = vgpumgr(site, "attach", "vm02", "--profile", "8Q", "--yes", code=5)
    assert refused.err.split("error: ")[1] == (
        "vm02 would take team-a over its quota of 16 GiB and 3 vGPUs (group_vars/all.yml:1)\n"
        "  it holds 12 GiB in 2 vGPUs, and this would be 8 GiB in 1 vGPU more\n"
        "  kvm01  8 GiB in 1 vGPU: vm01\n"
        "  kvm02  4 GiB in 1 vGPU: vm11\n"
        "hint: free what team-a does not need (`vgpumgr usage --idle 7d`), ask for less, or raise vgpumgr_quota\n"
    )
    assert json.loads(site.run("attach", "vm02", "--profile", "8Q", "-o", "json").stderr)["error"] == "OverQuota"
    assert [site.trace(host) for host in HOSTS] == before
    vgpumgr(site, "attach", "vm02", "--profile", "4Q")
    vgpumgr(site, "attach", "vm21", "--profile", "24Q")  # nobody's


def test_what_holds_no_more_than_before_is_never_refused(site: Near) -> None:
    """A quota that was lowered, or passed before there was one, takes nothing away."""
    vgpumgr(site, "attach", "vm01", "--profile", "8Q")
    vgpumgr(site, "attach", "vm11", "--profile", "8Q")
    give(site, "{memory: 4G}")
    vgpumgr(site, "attach", "vm01", "--profile", "8Q")
    vgpumgr(site, "attach", "vm01", "--profile", "12Q", "--replace", "--yes", code=5)
    vgpumgr(site, "attach", "vm01", "--profile", "4Q", "--replace", "--yes")
    site.machines["kvm01"].reboot()
    vgpumgr(site, "reconcile", "--yes")
    assert held(site) == [("vm01", "A40-4Q"), ("vm11", "A40-8Q")]
    vgpumgr(site, "detach", "vm01", "--yes")
    give(site, "{vgpus: 0}")
    vgpumgr(site, "attach", "vm01", "--profile", "4Q", code=5)


def test_only_what_adds_to_an_owner_with_a_quota_reads_the_other_hosts(site: Near) -> None:
    def asked(*words: str) -> int:
        vgpumgr(site, *words)
        return len(site.links)

    assert asked("attach", "vm01", "--on", "kvm01", "--profile", "4Q") == len(HOSTS)
    assert asked("attach", "vm01", "--on", "kvm01", "--profile", "4Q") == 1
    assert asked("detach", "vm01", "--on", "kvm01", "--yes") == 1
    assert asked("attach", "vm21", "--on", "kvm03", "--profile", "4Q") == 1


def test_a_host_that_cannot_be_read_may_hold_anything(site: Near) -> None:
    """Unknown is not free; what is known to be too much is refused as that."""
    site.dead.add("kvm02")
    refused = vgpumgr(site, "attach", "vm01", "--on", "kvm01", "--profile", "8Q", code=4)
    assert "kvm02 could not be read, so it is unknown whether vm01 stays within the quota of team-a" in refused.err
    vgpumgr(site, "attach", "vm01", "--on", "kvm01", "--profile", "24Q", code=5)
    (total,) = document(site, "capacity", "8Q", "--for", "team-a", "--on", "kvm01", code=4)["totals"]
    assert (total["fits_now"], total["at_least"]) == (None, True)


def test_several_vms_of_several_hosts_share_one_quota(site: Near) -> None:
    more = ("attach", "vm0[1:3]", "vm11", "--profile", "4Q", "--yes")
    vgpumgr(site, *more, code=5)
    assert held(site) == []
    vgpumgr(site, *more, "--partial", code=5)
    assert held(site) == [("vm01", "A40-4Q"), ("vm02", "A40-4Q"), ("vm03", "A40-4Q")]


def test_all_slots_of_a_vm_are_within_the_quota_or_none(site: Near) -> None:
    refused = vgpumgr(site, "attach", "vm01", "--profile", "4Q", "--count", "4", code=5)
    assert "3 of 4 slots could get one, so none is created" in refused.err
    vgpumgr(site, "attach", "vm01", "--profile", "4Q", "--count", "3")


def test_reconcile_serves_what_the_quota_leaves_in_the_order_of_names_and_tells_of_the_rest(site: Near) -> None:
    vgpumgr(site, "attach", "vm13", "--profile", "4Q")
    site.declare("kvm01", **declared("4Q", "vm01", "vm02"))
    site.declare("kvm02", **declared("4Q", "vm11"))
    site.declare(
        "kvm03",
        vgpumgr_vms={
            "vm21": {"owner": "team-a", "vgpu0": {"profile": "4Q"}},
            "vm22": {"vgpu0": {"profile": "4Q"}},
        },
    )
    for _ in range(2):
        done = document(site, "reconcile", "--yes", code=5)
        units = [unit for host in done["result"]["hosts"] for unit in host["units"]]
        refused = {unit["vm"]: unit["error"]["error"] for unit in units if unit["error"]}
        assert refused == {"vm11": "OverQuota", "vm21": "OverQuota"}
        assert {vm for vm, _ in held(site)} == {"vm01", "vm02", "vm13", "vm22"}
    give(site, "{vgpus: 4}")
    vgpumgr(site, "reconcile", "--limit", "kvm03", "--yes")
    vgpumgr(site, "reconcile", "--yes", code=5)
    assert {vm for vm, _ in held(site)} == {"vm01", "vm02", "vm13", "vm21", "vm22"}


def test_a_list_of_requests_keeps_to_the_quota_too(site: Near) -> None:
    """What Ansible's module asks for; hosts come by their names here, too."""
    context = build_context(Settings())
    wish = ByProfile(profile=parse_profile("8Q"))
    wanted = [SlotRequest(vm=vm, slot=Slot("vgpu0"), wish=wish) for vm in ("vm11", "vm01", "vm02")]
    for check in (True, False):
        done = apply_requests(context, wanted, check=check)
        assert [type(one.error) for one in done.slots] == [errors.OverQuota, type(None), type(None)]


def test_capacity_for_an_owner_is_what_its_quota_leaves(site: Near) -> None:
    vgpumgr(site, "attach", "vm01", "--profile", "4Q")
    found = vgpumgr(site, "capacity", "8Q", "--for", "team-a")
    assert "8Q: room for 1 more, on 5 of 6 suitable GPUs" in found.out
    assert (
        "has a quota of 16 GiB and 3 vGPUs, and holds 4 GiB in 1 vGPU"
        in vgpumgr(site, "capacity", "24Q", "--for", "team-a").out
    )
    vgpumgr(site, "capacity", "8Q", "--count", "2", "--for", "team-a", code=5)
    vgpumgr(site, "capacity", "8Q", "--for", "team-b", code=2)
    vgpumgr(site, "capacity", "--for", "team-a", code=2)


def request(vm: str) -> SlotRequest:
    return SlotRequest(vm=vm, slot=Slot("vgpu0"), wish=ByProfile(profile=parse_profile("12Q")))


def agreed() -> Consent[Any]:
    return Consent(check=False, show=lambda _plan: None, ask=lambda _plan: None)


def _one(context: Context) -> VgpumgrError | None:
    try:
        attach(context, request("vm01"), agreed())
    except errors.OverQuota as error:
        return error
    return None


def _several(context: Context) -> VgpumgrError | None:
    done = serve_together(context, TogetherOptions(requests=[request("vm01"), request("vm02")]), agreed())
    return done.problems[0]


def _a_list(context: Context) -> VgpumgrError | None:
    return apply_requests(context, [request("vm01")], check=False).problems[0]


def _reconcile(context: Context) -> VgpumgrError | None:
    return reconcile(context, ReconcileOptions(limit=("kvm01",)), agreed()).hosts[0].tasks[0].error


@pytest.mark.parametrize("command", [_one, _several, _a_list, _reconcile])
def test_what_others_are_given_before_its_turn_counts_for_a_command(
    site: Near, command: Callable[[Context], VgpumgrError | None]
) -> None:
    """Another command of this controller gives vm11 its vGPU while this one waits, which holds no host meanwhile."""
    if command is _reconcile:
        site.declare("kvm01", **declared("12Q", "vm01"))
    context = build_context(Settings())
    assert context.store is not None
    other, said = ExitStack(), list[str]()
    other.enter_context(only_one(context.store, "bert@ctl1", name=QUOTAS))

    def progress(line: str) -> None:
        if "another run is under way" in line:
            said.append(line)
            given = apply_requests(replace(context, store=None), [request("vm11")], check=False)
            assert given.problems == ()
            other.close()

    refused = command(replace(context, progress=progress))
    assert isinstance(refused, errors.OverQuota)
    assert len(said) == 1
    assert not any(machine.is_locked() for machine in site.machines.values())
    assert held(site) == [("vm11", "A40-12Q")]


def test_only_what_adds_to_an_owner_with_a_quota_waits_for_a_turn(site: Near) -> None:
    context = build_context(Settings())
    assert context.store is not None
    with only_one(context.store, "bert@ctl1", name=QUOTAS):
        vgpumgr(site, "attach", "vm21", "--profile", "4Q")
        vgpumgr(site, "attach", "vm01", "--profile", "4Q", "--check", code=3)
        waited = vgpumgr(site, "attach", "vm01", "--profile", "4Q", "--timeout", "1", code=6)
        assert "bert@ctl1" in waited.err
    vgpumgr(site, "attach", "vm01", "--profile", "4Q")
