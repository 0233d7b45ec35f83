"""What is printed: the five lines of an attach, tables, and the formats that scripts read."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import Ran, vgpumgr

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm01"
ATTACH = ("attach", VM, "--profile", "4Q", "--on", HOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """One VM's way, and everything that was printed on it."""

    check: Ran
    attach: Ran
    again: Ran
    json_list: Ran
    table: Ran
    show: Ran
    render: Ran
    detach: Ran
    detach_again: Ran


@pytest.fixture(scope="module")
def printed(vf_fleet: Lab) -> Printed:
    lab = vf_fleet
    return Printed(
        check=vgpumgr(lab, *ATTACH, "--check", code=3),
        attach=vgpumgr(lab, *ATTACH),
        again=vgpumgr(lab, *ATTACH),
        json_list=vgpumgr(lab, "list", HOST, "-o", "json"),
        table=vgpumgr(lab, "list", HOST),
        show=vgpumgr(lab, "show", VM, "--on", HOST, "-o", "json"),
        render=vgpumgr(lab, "render", VM, "--on", HOST),
        detach=vgpumgr(lab, "detach", VM, "--on", HOST, "--yes", "-v"),
        detach_again=vgpumgr(lab, "detach", VM, "--on", HOST),
    )


def timeless(text: str) -> str:
    """Without what differs from run to run."""
    return re.sub(r"done in \d+\.\d s\.", "done in 0.9 s.", text)


def uuid_of(printed: Printed) -> str:
    uuid = printed.json_list.document["vgpus"][0]["uuid"]
    assert isinstance(uuid, str)
    return uuid


def test_an_attach_is_five_lines(printed: Printed) -> None:
    """Head, claim, vGPU, hostdev, and the way back: aligned, and with where and why."""
    assert timeless(printed.attach.out) == (
        "vm01 on kvm01 (shut off), requested --profile 4Q\n"
        "  + claim    vgpu0: A40-4Q, 4 of 48 GiB, guest sees at least 3.47 GiB\n"
        "  + vGPU     on 0000:41:00.4, GPU 0000:41:00.0, 1 of 12      "
        "it is empty, the first of 2 such GPUs\n"
        f"  + hostdev  mdev {uuid_of(printed)}, at the VM's next start\n"
        "done in 0.9 s. Undo: vgpumgr detach vm01 --on kvm01\n"
    )


def test_a_check_prints_the_same_plan_and_says_that_nothing_was_written(printed: Printed) -> None:
    assert printed.check.out.splitlines()[:-1] == printed.attach.out.splitlines()[:-1]
    assert printed.check.out.splitlines()[-1] == (
        "dry run: nothing was changed (--check). "
        "GPU 0000:41:00.0 would take only types of 4 GiB from then on, until it is empty."
    )


def test_the_same_attach_again_is_one_line(printed: Printed) -> None:
    assert printed.again.out == "vm01 already has it: A40-4Q on 0000:41:00.4. Nothing to do.\n"


def test_a_detach_is_its_steps(printed: Printed) -> None:
    assert timeless(printed.detach.out) == (
        "vm01 on kvm01 (shut off), detach\n"
        f"  - hostdev  mdev {uuid_of(printed)}\n"
        "  - vGPU     A40-4Q on 0000:41:00.4, GPU 0000:41:00.0\n"
        "  - claim    vgpu0\n"
        "done in 0.9 s.\n"
    )
    assert printed.detach_again.out == "vm01 has no vGPU of ours. Nothing to do.\n"


def test_verbose_tells_what_is_done_on_each_host(printed: Printed) -> None:
    """From the first look-up to the last step, with the time; nothing of the SSH library's own."""
    lines = [line.partition(" ") for line in printed.detach.err.splitlines() if not line.startswith("reading")]
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}", time) for time, _, _ in lines)
    told = [text for _, _, text in lines]
    wanted = [
        f"{HOST}: connecting",
        f"{HOST}: logging in",
        f"{HOST}: logged in; sending the host program",
        f"{HOST}: taking the lock, reading facts",
        f"{HOST}: step detach_hostdev vm={VM} slot=vgpu0 ",
        f"{HOST}: step destroy_vgpu ",
        f"{HOST}: reading what has changed, releasing the lock",
        f"{HOST}: done",
    ]
    places = [next(at for at, text in enumerate(told) if text.startswith(one)) for one in wanted]
    assert places == sorted(places)
    assert "paramiko" not in printed.detach.err


def test_progress_stays_off_stdout(printed: Printed) -> None:
    """stdout is data; what is going on is one line on stderr."""
    assert printed.table.err == f"reading {HOST} …\n"


def test_show_has_the_vm_its_claims_and_its_vgpus(printed: Printed) -> None:
    document = printed.show.document
    vm = document["vm"]
    assert vm["vgpus"] == printed.json_list.document["vgpus"]
    (claim,) = vm["claims"]
    assert (claim["slot"], claim["requested"], claim["state"], claim["from"]) == (
        "vgpu0",
        "--profile 4Q",
        "bound",
        "attach",
    )


def test_render_is_the_xml_that_libvirt_was_passed(printed: Printed) -> None:
    assert printed.render.out.strip().startswith("<hostdev mode=")
    assert f"uuid='{uuid_of(printed)}'" in printed.render.out.replace('"', "'")


def test_errors_are_one_object_in_json_and_three_parts_for_people(vf_fleet: Lab) -> None:
    """What, the candidates, and the hint last, near the prompt; colour only where it was asked for."""
    ask = ("attach", VM, "--profile", "5Q", "--on", HOST)
    plain = vgpumgr(vf_fleet, *ask, "--color", "never", code=2)
    lines = [line for line in plain.err.splitlines() if not line.startswith("reading")]
    assert lines[0].startswith("error: ")
    assert all(line.startswith("  ") for line in lines[1:-1])
    assert lines[-1].startswith("hint: ")
    scripted = vgpumgr(vf_fleet, *ask, "-o", "json", code=2)
    assert [scripted.error["message"], *scripted.error["details"], scripted.error["hint"]] == [
        lines[0].removeprefix("error: "),
        *(line[2:] for line in lines[1:-1]),
        lines[-1].removeprefix("hint: "),
    ]
    assert json.loads(scripted.err) == scripted.error
