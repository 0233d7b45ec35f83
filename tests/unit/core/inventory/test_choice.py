"""What the arguments of list, top, usage and history mean: hosts where something of ours is called so, else VMs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.inventory import choice, patterns
from vgpumgr.errors import BadName, UnknownHost, UnknownVm, VmNotSeen
from vgpumgr.inventory_files.reader import load

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.inventory import Inventory

UUID = "6a1f0000-0000-4000-8000-000000000001"
# host → its VMs
VMS = {
    "kvm01": ["vm01", "web01", "shared"],
    "kvm02": ["vm02", "web02", "kvm01"],
    "gpu01": ["web03", "win 10", "a:b", "R&D", "vm[1]"],
}


@pytest.fixture
def site(tmp_path: Path) -> Inventory:
    """kvm01 declares vm01; web01 is a host of Ansible's, too."""
    text = "hypervisors: {children: {rack1: }, hosts: {gpu01: }}\nrack1: {hosts: {kvm01: {vgpumgr_vms: {vm01: {}}}, kvm02: }}\nvms: {hosts: {web01: }}\n"
    (tmp_path / "hosts.yml").write_text(text)
    return load(tmp_path, home=tmp_path, environ={})


def shown(site: Inventory, *texts: str) -> tuple[str, str]:
    """The hosts that are read, and the VMs of them that are shown."""
    meant = choice.choose(site, texts)
    hosts = [host.name for host in meant.hosts]
    return " ".join(hosts), ",".join(vm for host in hosts for vm in VMS[host] if meant.shown.shows(host, vm))


EVERY = "gpu01 kvm01 kvm02"


@pytest.mark.parametrize(
    ("texts", "read", "vms"),
    [
        ((), EVERY, "web03,win 10,a:b,R&D,vm[1],vm01,web01,shared,vm02,web02,kvm01"),
        (("rack1",), "kvm01 kvm02", "vm01,web01,shared,vm02,web02,kvm01"),
        (("kvm01",), "kvm01", "vm01,web01,shared"),  # a host before a VM of that name
        (("vm01",), "kvm01", "vm01"),  # declared: no other host is asked
        (("vm02",), EVERY, "vm02"),
        (("web01",), EVERY, "web01"),  # a host that is none of ours hides no VM
        (("web*",), EVERY, "web03,web01,web02"),
        (("web*:!web02",), EVERY, "web03,web01"),
        (("web*", "!kvm02"), "gpu01 kvm01", "web03,web01"),
        (("web*", "&rack1"), "kvm01 kvm02", "web01,web02"),
        (("kvm01", "web03"), EVERY, "web03,vm01,web01,shared"),  # added up
        (("!web*",), EVERY, "win 10,a:b,R&D,vm[1],vm01,shared,vm02,kvm01"),
        (("rack1", "!web*"), "kvm01 kvm02", "vm01,shared,vm02,kvm01"),
        (("vm[01:02]",), EVERY, "vm01,vm02"),
        (("vm01,web03",), EVERY, "web03,vm01"),
        (("~(vm|web)01",), EVERY, "vm01,web01"),
        (("win 10",), EVERY, "win 10"),  # names that hold what divides patterns
        (("a:b",), EVERY, "a:b"),
        (("vm[1]",), EVERY, "vm[1]"),
        (("kvm01:kvm02",), "kvm01 kvm02", "vm01,web01,shared,vm02,web02,kvm01"),
    ],
)
def test_an_argument_means_hosts_of_ours_else_vms(site: Inventory, texts: tuple[str, ...], read: str, vms: str) -> None:
    assert shown(site, *texts) == (read, vms)


@pytest.mark.parametrize(
    ("texts", "on", "read", "vms"),
    [
        ((), "kvm01", "kvm01", "vm01,web01,shared"),
        (("web*",), "rack1", "kvm01 kvm02", "web01,web02"),
        (("web*", "!kvm02"), "rack1", "kvm01", "web01"),
        (("vm01",), "kvm02", "kvm02", ""),  # declared on kvm01, and looked for where that is asked
        (("kvm01", "web02"), "kvm02", "kvm02", "web02"),
        (("rack1",), "!kvm01", "kvm02", "vm02,web02,kvm01"),
    ],
)
def test_with_on_it_is_what_these_hosts_have_of_it(
    site: Inventory, texts: tuple[str, ...], on: str, read: str, vms: str
) -> None:
    meant = choice.choose(site, texts, on)
    hosts = [host.name for host in meant.hosts]
    assert " ".join(hosts) == read
    assert ",".join(vm for host in hosts for vm in VMS[host] if meant.shown.shows(host, vm)) == vms


def test_hosts_that_on_leaves_nothing_of_are_an_error(site: Inventory) -> None:
    with pytest.raises(UnknownHost, match="'kvm01 --on kvm02' leaves no host"):
        choice.choose(site, ("kvm01",), "kvm02")


def test_a_vm_may_be_named_by_its_uuid(site: Inventory) -> None:
    meant = choice.choose(site, (UUID.upper(),))
    assert meant.shown.shows("kvm01", "vm01", UUID)
    assert not meant.shown.shows("kvm01", "vm01", UUID.replace("1", "2"))
    assert not meant.shown.shows("kvm01", None)


def test_what_matches_nothing_is_named_with_what_is_near(site: Inventory) -> None:
    meant = choice.choose(site, ("web*", "vm1", "!nobody"))
    vms = [(name, None) for names in VMS.values() for name in names]
    error, other = choice.unknown_vms(meant.shown, site, vms, unread=0)
    assert (type(error), error.message, error.hint) == (UnknownVm, "no host and no VM 'vm1'", "did you mean vm01?")
    assert other.message == "no host and no VM 'nobody'"
    (near_a_host,) = choice.unknown_vms(choice.choose(site, ("kvm1",)).shown, site, vms, unread=0)
    assert near_a_host.hint == "did you mean kvm01?"
    assert {type(one) for one in choice.unknown_vms(meant.shown, site, vms, unread=3)} == {VmNotSeen}


@pytest.mark.parametrize(
    ("texts", "error"),
    [
        (("",), BadName),
        (("~(",), BadName),
        (("kvm01", "!kvm01"), UnknownHost),
        (("web*", "&kvm01", "!kvm01"), UnknownHost),
    ],
)
def test_a_choice_of_nothing_is_an_error(site: Inventory, texts: tuple[str, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        choice.choose(site, texts)


@given(st.lists(st.text(max_size=10), max_size=3))
@settings(LAW)
def test_any_text_is_a_choice_or_an_error_of_ours(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    (folder / "hosts.yml").write_text("all: {hosts: {kvm01: , kvm02: }}\n")
    try:
        meant = choice.choose(load(folder, home=folder, environ={}), texts)
    except (BadName, UnknownHost):
        return
    assert meant.hosts
    assert isinstance(meant.shown.shows("kvm01", "vm01"), bool)


ROSTER = patterns.Roster(hosts=["kvm01", "kvm02", "gone01"], members={"rack1": ["kvm01", "kvm02"]})  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("texts", "vms"),
    [
        (("kvm01",), "kvm01:a kvm01:b"),
        (("rack1",), "kvm01:a kvm01:b kvm02:a"),
        (("gone01", "!b"), "gone01:c"),  # no longer in the inventory
        (("a", "!kvm02"), "kvm01:a"),
        (("!rack1",), "gone01:c"),
        (("a*", "c"), "kvm01:a kvm02:a gone01:c"),
        (("kvm01", "c"), "kvm01:a kvm01:b gone01:c"),
        (("nobody",), ""),
    ],
)
def test_of_what_was_stored_the_same_is_meant(texts: tuple[str, ...], vms: str) -> None:
    shown = choice.choose_stored(texts, ROSTER)
    stored = [("kvm01", "a"), ("kvm01", "b"), ("kvm02", "a"), ("gone01", "c")]
    assert " ".join(f"{host}:{vm}" for host, vm in stored if shown.shows(host, vm)) == vms
