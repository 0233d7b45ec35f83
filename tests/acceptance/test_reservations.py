"""Places that are kept over several hosts: told, taken, given up, and what happens when a host fails half way."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document
from vgpumgr.host.protocol.gpu import MDEV_PF

if TYPE_CHECKING:
    from tests.acceptance.near import Near, Sites

HOSTS = {"kvm01": NearHost(vms=("vm01", "vm02")), "kvm02": NearHost(vms=("vm11",))}
WISH = ("--profile", "24Q")
RESERVE = ("reserve", *WISH, "--count", "6", "--for", "team-a")


@pytest.fixture
def site(near_site: Sites) -> Near:
    """Two hosts of two A40, each of which takes two 24Q."""
    return near_site(HOSTS)


def kept(site: Near) -> list[str]:
    return [row["host"] for row in document(site, "reserve", "list")["reservations"]]


def test_places_on_several_hosts_are_kept_until_they_are_taken_or_given_up(site: Near) -> None:
    ran = vgpumgr(site, *RESERVE)
    assert len(re.findall(r"^team-a +kvm0[12] .* 7d +team-a ", ran.out, re.MULTILINE)) == 6
    assert ran.out.splitlines()[-1].endswith(
        "Take one: vgpumgr attach VM --profile 24Q --reservation team-a. Give them up: vgpumgr reserve cancel team-a"
    )
    assert sorted(kept(site)) == ["kvm01"] * 4 + ["kvm02"] * 2
    assert [row["fits_now"] for row in document(site, "capacity", "24Q")["gpus"]] == [0, 0, 0, 2]
    refused = vgpumgr(site, "attach", "vm01", *WISH, code=5)
    assert "reserved: team-a" in refused.err
    taken = vgpumgr(site, "attach", "vm01", *WISH, "--reservation", "team-a")
    assert "reserved: team-a\n" in taken.out
    assert "  - reserved team-a\n" in taken.out
    assert len(kept(site)) == 5
    assert vgpumgr(site, "attach", "vm01", *WISH, "--reservation", "team-a").out.endswith("Nothing to do.\n")
    given_up = vgpumgr(site, "reserve", "cancel", "team-a", "--yes")
    assert given_up.out.endswith("team-a is given up: 5 places are free for others.\n")
    assert kept(site) == []
    assert vgpumgr(site, "reserve", "cancel", "team-a").out == (
        "there is no reservation team-a. Nothing to do; `vgpumgr reserve list` shows those that there are.\n"
    )


def test_the_list_also_shows_what_the_inventory_keeps_for_an_owner_and_does_not_have_yet(site: Near) -> None:
    def listed() -> list[tuple[str, str, bool, int | None, str]]:
        rows = document(site, "reserve", "list")["reservations"]
        return [(row["host"], row["name"], row["declared"], row["left_s"], row["by"]) for row in rows]

    site.declare("kvm01", vgpumgr_owner="team-b", vgpumgr_reservations={"team-b": {"profile": "24Q", "count": 2}})
    one = ("kvm01", "team-b", True, None, "host_vars/kvm01.yml:1")
    assert listed() == [one, one]
    assert re.search(
        r"^team-b +kvm01 .* declared +team-b +host_vars/kvm01.yml:1", vgpumgr(site, "reserve", "list").out, re.MULTILINE
    )
    vgpumgr(site, "attach", "vm01", *WISH)
    assert listed() == [one]
    assert vgpumgr(site, "reserve", "cancel", "team-b").out == (
        "team-b is declared in the inventory (host_vars/kvm01.yml:1): it ends when it is taken out there.\n"
    )
    vgpumgr(site, "reserve", *WISH, "--for", "team-b", "--on", "kvm01")
    assert [row[:3] for row in listed()] == [("kvm01", "team-b", False), one[:3]]


def test_repeated_it_changes_nothing_and_with_more_it_keeps_what_is_missing(site: Near) -> None:
    vgpumgr(site, "reserve", *WISH, "--count", "2", "--for", "team-a")
    assert vgpumgr(site, "reserve", *WISH, "--count", "2", "--for", "team-a").out.endswith(
        "team-a keeps them already, until the end shown: --ttl is for new places. Nothing to do.\n"
    )
    vgpumgr(site, "reserve", *WISH, "--count", "3", "--for", "team-a")
    assert len(kept(site)) == 3
    fewer = vgpumgr(site, "reserve", *WISH, "--count", "2", "--for", "team-a", code=5)
    assert "error: the reservation team-a keeps 3 places, not 2\n" in fewer.err
    other = vgpumgr(site, "reserve", "--profile", "4Q", "--for", "team-a", code=5)
    assert "error: there is another reservation team-a on kvm01\n" in other.err
    vgpumgr(site, "reserve", *WISH, "--for", "team-b", "--name", "team-a", code=5)
    assert len(kept(site)) == 3


def test_where_too_few_are_free_none_is_kept(site: Near) -> None:
    assert document(site, "reserve", *WISH, "--for", "Team A", "--name", "a")["reservations"][0]["owner"] == "Team A"
    vgpumgr(site, "reserve", "cancel", "a", "--yes")
    short = vgpumgr(site, "reserve", *WISH, "--count", "9", "--name", "nine", code=5)
    assert "error: 8 of 9 find a place (--profile 24Q, policy least-fragmentation)\n" in short.err
    assert vgpumgr(site, *RESERVE, "--check", code=3).out.endswith("dry run: nothing was changed (--check).\n")
    assert kept(site) == []


def test_an_unread_host_is_told_and_the_rest_is_kept(site: Near) -> None:
    site.dead.add("kvm02")
    ran = vgpumgr(site, "reserve", *WISH, "--name", "one", code=4)
    assert ran.out.splitlines()[-1].startswith("done in ")
    assert "kvm02" in ran.err
    site.dead.add("kvm01")
    vgpumgr(site, "reserve", *WISH, "--name", "two", code=4)
    site.dead.clear()
    assert kept(site) == ["kvm01"]


def test_place_keeps_what_it_names_under_a_name_of_its_own(site: Near) -> None:
    tried = json.loads(site.run("place", *WISH, "--hold", "30m", "--check", "-o", "json").stdout)
    assert ("would_change" in tried["outcomes"], kept(site)) == (True, [])
    held = json.loads(site.run("place", *WISH, "--count", "3", "--hold", "30m", "-o", "json").stdout)
    assert re.fullmatch(r"place-[0-9a-f]{8}", held["reservation"])
    assert sorted(kept(site)) == sorted(place["host"] for place in held["places"])
    (left,) = {row["left_s"] // 60 for row in document(site, "reserve", "list")["reservations"]}
    assert left in (29, 30)
    vgpumgr(site, "attach", "vm01", *WISH, "--reservation", held["reservation"])
    assert json.loads(site.run("place", *WISH, "-o", "json").stdout)["reservation"] is None


def test_on_a_physical_function_a_taken_place_is_told_once(near_site: Sites) -> None:
    site = near_site({"kvm01": NearHost(vms=("vm01",), board="T4", framework=MDEV_PF)})
    vgpumgr(site, "reserve", "--profile", "8Q", "--count", "2", "--for", "team-a")
    assert (
        vgpumgr(site, "attach", "vm01", "--profile", "8Q", "--reservation", "team-a").out.count("reserved team-a") == 1
    )
    assert len(kept(site)) == 1


def test_what_vgpumgr_leaves_keeps_no_reservation(site: Near) -> None:
    vgpumgr(site, "reserve", *WISH, "--name", "one")
    assert "reserved one" in vgpumgr(site, "host", "purge", "kvm01", "--yes").out
    assert kept(site) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("reserve",), "nothing is asked for"),
        (("reserve", "cancel"), "reserve cancel needs the name of a reservation\nhint: `vgpumgr reserve list` shows"),
        (("reserve", *WISH), "the reservation has no name"),
        (("reserve", *WISH, "--name", "Team A"), "not a name of a reservation: 'Team A'"),
        (("reserve", *WISH, "--for", "Team A"), "not a name of a reservation: 'Team A'"),
        (("reserve", *WISH, "--for", "a\tb", "--name", "a"), "not an owner's name: 'a\\tb'"),
        (("reserve", *WISH, "--name", "a", "--ttl", "400d"), "a reservation ends within a year"),
        (("reserve", "list", *WISH), "reserve list takes no --profile"),
        (("reserve", "list", "--count", "3"), "reserve list takes no --count"),
        (("reserve", "list", "--ttl", "7d"), "reserve list takes no --ttl"),
        (("reserve", "cancel", "a", "--policy", "pack"), "reserve cancel takes no --policy"),
        (("reserve", "cancel", "a", "--for", "b"), "reserve cancel takes no --for"),
        (("reserve", "foo", *WISH), "reserve does not know 'foo'\nhint: a reservation's name is given as --name foo\n"),
        (("reserve", "team-a"), "reserve does not know 'team-a'"),
        (("place", *WISH, "--hold", "1h", "--policy", "all"), "--hold and --policy all cannot be combined"),
        (("attach", "vm01", *WISH, "--reservation", "b"), "kvm01 has no reservation 'b'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(site: Near, words: tuple[str, ...], told: str) -> None:
    assert f"error: {told}" in vgpumgr(site, *words, code=2).err
