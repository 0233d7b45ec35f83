"""Every command with `-o json` once: what it prints is what its schema says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import pytest

from tests.acceptance import near
from tests.acceptance.command import Ran, vgpumgr
from tests.unit.documents import published
from vgpumgr.cli import main
from vgpumgr.cli.rows.column import listed
from vgpumgr.cli.rows.every import VIEWS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.acceptance.near import Near
    from tests.lab_fixtures import Lab
    from tests.model.pool import Pool

HOST, VM, DECLARED = "kvm01", "vm21", "vm22"
ON = ("--on", HOST)
GPU = ("--gpu-id", "0000:81:00.0")
MODE_GPU = ("--gpu-id", "0000:41:00.0")  # the other has fixed-share by then, which mixed sizes do not combine with
FIXED = ("--policy", "fixed-share", "--time-slice", "2ms")
KVM01 = {
    "vgpumgr_gpus": {"0000:41:00.0": {"scheduler": {"policy": "equal-share"}}},
    "vgpumgr_vms": {DECLARED: {"vgpu0": {"profile": "4Q"}}},
}

# What each command line is and which object it prints; in this order, so that there is something to print.
RUNS: dict[str, tuple[tuple[str, ...], str, int]] = {
    "attach --check": (("attach", VM, "--profile", "4Q", *ON, "--check"), "plan", 3),
    "attach": (("attach", VM, "--profile", "4Q", *ON), "change", 0),
    "plan": (("plan", "--limit", HOST), "plan", 3),
    "reconcile --check": (("reconcile", "--limit", HOST, "--check"), "plan", 3),
    "reconcile": (("reconcile", "--limit", HOST, "--yes"), "change", 0),
    "reconcile --restart-window": (("reconcile", "--restart-window"), "restarts", 0),
    "list": (("list", HOST), "list", 0),
    "show": (("show", VM, *ON), "show", 0),
    "discover": (("discover",), "discover", 0),
    "doctor": (("doctor",), "doctor", 0),
    "capacity": (("capacity",), "capacity", 0),
    "capacity PROFILE": (("capacity", "4Q", "--compute", "best-effort", "--count", "2"), "capacity", 0),
    "capacity --stranded": (("capacity", "--stranded"), "capacity", 0),
    "capacity --catalogue": (("capacity", "--catalogue", "4Q,8Q,24Q"), "capacity", 0),
    "profiles": (("profiles", HOST, "--fits"), "profiles", 0),
    "profiles --offline": (("profiles", "--offline", "--board", "A40"), "types", 0),
    "units": (("units",), "units", 0),
    "mig show": (("mig", "show"), "mig_show", 0),
    "gc": (("gc", *ON), "change", 0),
    "gc --check": (("gc", "--check"), "plan", 0),
    "fit": (("fit", "A40, A100: 3x8Q 12Q 2g.10gb"), "fit", 0),
    "mig fit": (("mig", "fit", "A100", "3g.20gb", "2g.10gb"), "mig_fit", 0),
    "docs": (("docs",), "docs", 0),
    "version": (("version",), "version", 0),
    "host install": (("host", "install", HOST), "host", 0),
    "host status": (("host", "status", HOST), "host", 0),
    "host check": (("host", "check", HOST), "host", 0),
    "host uninstall": (("host", "uninstall", HOST), "host", 0),
    "place": (("place", "--profile", "4Q", *ON), "place", 0),
    "place --hold --check": (("place", "--profile", "4Q", *ON, "--hold", "30m", "--check"), "place", 3),
    "partition advise": (("partition", "advise", HOST), "partition", 0),
    "partition apply": (("partition", "apply", HOST), "change", 0),
    "reserve": (("reserve", "--profile", "4Q", *ON, "--for", "team-a"), "reservations", 0),
    "reserve (list)": (("reserve", "list"), "reservations", 0),
    "reserve (cancel)": (("reserve", "cancel", "team-a", "--yes"), "reservations", 0),
    "waiting": (("waiting",), "waiting", 0),
    "migrate-framework": (("migrate-framework", HOST), "change", 0),
    "defrag": (("defrag", HOST, "--profile", "4Q", "--check"), "plan", 0),
    "explain": (("explain", "--gpu-memory", "5G"), "explain", 0),
    "explain --compare": (("explain", "--gpu", "0.25", *ON, "--compare"), "explain", 0),
    "render": (("render", VM, *ON), "render", 0),
    "history": (("history",), "history", 0),
    "top": (("top",), "top", 0),
    "collect": (("collect",), "collect", 0),
    "usage": (("usage",), "usage", 0),
    "report": (("report",), "report", 0),
    "advise": (("advise",), "advise", 0),
    "inventory check": (("inventory", "check"), "inventory", 0),
    "scheduler show": (("scheduler", "show", HOST), "scheduler", 0),
    "scheduler set --check": (("scheduler", "set", *ON, *GPU, *FIXED, "--check"), "plan", 3),
    "scheduler set": (("scheduler", "set", *ON, *GPU, *FIXED, "--yes"), "change", 0),
    "mode show": (("mode", "show", HOST), "mode", 0),
    "mode set --check": (("mode", "set", "mixed-size", *ON, *MODE_GPU, "--check"), "plan", 3),
    "mode set": (("mode", "set", "mixed-size", *ON, *MODE_GPU, "--yes"), "change", 0),
    "cordon --check": (("cordon", HOST, "--reason", "ECC errors", "--check"), "plan", 3),
    "cordon": (("cordon", HOST, *GPU, "--reason", "ECC errors"), "change", 0),
    "cordon without HOST": (("cordon",), "cordons", 0),
    "discover again": (("discover",), "discover", 0),
    "host status again": (("host", "status", HOST), "host", 0),
    "uncordon": (("uncordon", HOST, *GPU), "change", 0),
    "drain --check": (("drain", HOST, "--check"), "drain", 3),
    "drain": (("drain", HOST, "--reason", "new PSU"), "drain", 0),
    "uncordon again": (("uncordon", HOST), "change", 0),
    "install cron": (("install", "cron"), "install", 0),
    "install timer": (("install", "timer"), "install", 0),
    "install collect": (("install", "collect"), "install", 0),
    "install export": (("install", "export"), "install", 0),
    "install web": (("install", "web"), "install", 0),
    "install remove": (("install", "remove", "--check"), "install", 0),
    "adopt": (("adopt", HOST), "change", 0),
    "detach": (("detach", VM, *ON, "--yes"), "change", 0),
    "detach again": (("detach", VM, *ON), "change", 0),
    "forget --check": (("forget", VM, "--check"), "forget", 3),
    "host install again": (("host", "install", "kvm02"), "host", 0),
    "host certify": (("host", "certify", HOST, *GPU), "certify", 0),
    "host purge --check": (("host", "purge", "kvm02", "--check"), "purge", 3),
    "host purge": (("host", "purge", "kvm02", "--yes"), "purge", 0),
}

# They print no object of their own: a shell's script, Prometheus' page, and the lab's, which are for the hand.
WITHOUT = {
    "completion",
    "export textfile",
    "export prometheus",
    "export rules",
    "export dashboard",
    *(f"lab {name}" for name in ("up", "down", "ssh", "reboot", "start", "hold", "load", "guest", "stop", "fault")),
    "host sudoers",
    "serve",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Hosts with an inventory that declares a VM, and what each command printed there."""

    near: Near
    printed: dict[str, Ran]


@pytest.fixture(scope="module")
def site(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with near.site(pool, near.SMALL, tmp_path_factory.mktemp("schemas")) as found:
        found.declare(HOST, **KVM01)
        printed = {name: vgpumgr(found, "-o", "json", *words, code=code) for name, (words, _, code) in RUNS.items()}
        yield Site(near=found, printed=printed)


@pytest.mark.parametrize("name", RUNS)
def test_a_command_prints_what_its_schema_says(site: Site, name: str) -> None:
    """Nothing beside the object; each of its keys is one that the schema asks for, and stands in its list of properties.

    A script may ask any document what came of it, what was not reached and what is odd.
    """
    thing = RUNS[name][1]
    document: Any = site.printed[name].document
    assert published.problems(thing, document) == []
    assert published.needless(thing, document) == []
    kinds = {key: type(document[key]) for key in ("outcomes", "unreached", "findings")}
    assert set(kinds.values()) == {list}, kinds
    assert document["outcomes"]
    assert document["unreached"] == []  # all hosts are up


@pytest.mark.parametrize("name", [name for name in RUNS if name in VIEWS])
def test_the_keys_of_a_row_come_in_the_order_of_the_columns_of_table_and_csv(site: Site, name: str) -> None:
    """What is a list or an object, or has another name as a column, stands elsewhere."""
    view = VIEWS[name]
    document: Any = site.printed[name].document
    objects = [document]
    for key in view.path:
        objects = [below for one in objects for below in listed(one[key])]
    keys = [*dict.fromkeys(column.key.partition(".")[0] for column in view.columns)]
    for one in objects:
        assert [key for key in one if key in keys] == [key for key in keys if key in one]


def test_every_command_is_tried_here_or_has_no_object() -> None:
    """A new command gets its line in RUNS and its file under docs/schemas/, or is said to have neither."""
    tried = {
        " ".join(
            word
            for word in name.split()
            if word
            not in (
                "--check",
                "--offline",
                "--compare",
                "--hold",
                "(list)",
                "(cancel)",
                "--restart-window",
                "--stranded",
                "--catalogue",
                "again",
                "PROFILE",
                "without",
                "HOST",
            )
        )
        for name in RUNS
    }
    assert set(commands(main.program, ())) == tried | WITHOUT | {"lab status"}


@pytest.mark.lab
def test_the_status_of_a_lab_is_what_its_schema_says(vf_fleet: Lab) -> None:
    assert published.problems("lab", vgpumgr(vf_fleet, "lab", "status", "-o", "json").document) == []


def commands(group: click.Group, path: tuple[str, ...]) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("attach", "nosuchvm", "--profile", "4Q"), 2),
        (("list", "--nosuchoption"), 2),
        (("detach", DECLARED, *ON), 2),
        (("attach", DECLARED, "--profile", "8Q", *ON), 5),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_what_fails_says_so_in_one_object(site: Site, arguments: tuple[str, ...], code: int) -> None:
    """On stderr, and nothing on stdout."""
    ran = vgpumgr(site.near, "-o", "json", *arguments, code=code)
    assert ran.out == ""
    assert published.problems("error", ran.error) == []


@pytest.fixture
def half(site: Site) -> Iterator[Near]:
    """The site while kvm02 is down."""
    site.near.dead.add("kvm02")
    yield site.near
    site.near.dead.clear()


def test_a_dead_host_is_in_the_object_of_those_that_answer(half: Near) -> None:
    """Each command about hosts: exit 4, what is known on stdout, and the same error in both places."""
    for thing, words in {
        "list": ["list"],
        "discover": ["discover"],
        "capacity": ["capacity"],
        "profiles": ["profiles"],
        "units": ["units"],
        "place": ["place", "--gpu", "0.25"],
        "reservations": ["reserve", "list"],
        "explain": ["explain", "--gpu", "0.25"],
        "waiting": ["waiting"],
        "advise": ["advise"],
        "doctor": ["doctor"],
        "restarts": ["reconcile", "--restart-window"],
        "host": ["host", "status"],
        "plan": ["plan"],
        "scheduler": ["scheduler", "show"],
        "mode": ["mode", "show"],
        "top": ["top"],
        "collect": ["collect"],
    }.items():
        ran = vgpumgr(half, "-o", "json", *words, code=4)
        document = Ran(arguments=ran.arguments, code=4, out=ran.out, err="").document
        assert published.problems(thing, document) == []
        (error,) = document["unreached"]
        assert (error["host"], error["error"]) == ("kvm02", "Unreachable")
        assert "unreached" in document["outcomes"]
        assert thing != "plan" or document["errors"] == [error]
    # One VM is found on the host that answers; whether the other has it too is not known.
    for thing, words, code in (
        ("show", ["show", "vm20"], 0),
        ("plan", ["attach", "vm20", "--profile", "4Q", "--check"], 3),
        ("plan", ["attach", "vm20", "vm19", "--profile", "4Q", "--check"], 3),
        ("plan", ["attach", "vm20", "vm31", "--profile", "4C", "--check"], 4),
    ):
        ran = vgpumgr(half, "-o", "json", *words, code=code)
        document = Ran(arguments=ran.arguments, code=code, out=ran.out, err="").document
        assert published.problems(thing, document) == []
        assert [(row["host"], row["error"]) for row in document["unreached"]] == [("kvm02", "Unreachable")], words
