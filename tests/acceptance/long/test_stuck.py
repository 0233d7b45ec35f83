"""A removal that does not return: its GPU takes no more writes, by whatever command; the rest of the host is served."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import altered, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus
from tests.controllers import wait_until

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM, OTHER, THIRD = "kvm01", "vm01", "vm02", "vm03"
DEADLINE_S = 1.0


@pytest.fixture
def lab(one_wiped: Lab) -> Lab:
    """kvm01 with a vGPU of vm01 on the first GPU, and one of vm02 on the second."""
    for vm, gpu in ((VM, "0000:41:00.0"), (OTHER, "0000:81:00.0")):
        vgpumgr(one_wiped, "attach", vm, "--profile", "4Q", "--on", HOST, "--gpu-id", gpu)
    return one_wiped


def raced(lab: Lab, *arguments: str) -> Ran:
    """With less patience; the VM opens its vGPU while it is taken out of the definition, seen by nobody."""
    fields = {"vm": VM, "unseen": "yes"}
    race = {"dir": os.fspath(lab.dir), "before": "detach_hostdev", "op": "hold", "fields": fields}
    done = lab.run(*arguments, "-o", "json", first=altered.unlucky, given={**race, "deadline_s": DEADLINE_S})
    return Ran(arguments=arguments, code=done.returncode, out=done.stdout, err=done.stderr)


def hang(lab: Lab) -> tuple[str, dict[str, Any]]:
    """Let the removal of vm01's vGPU hang: the GPU's address, and what the ledger has of the write."""
    (gpu,) = (row["gpu"] for row in vgpus(lab, HOST) if row["vm"] == VM)
    ran = raced(lab, "detach", VM, "--on", HOST, "--yes")
    assert (ran.code, ran.error["error"]) == (1, "PartialApply")
    assert "/remove: did not return in 1 s" in ran.error["message"]
    assert f"GPU {gpu} takes no more writes" in ran.error["message"]
    assert ran.error["hint"].startswith(f"`vgpumgr discover {HOST}` shows what it waits for")
    (record,) = records(lab)
    assert (record["gpu"], record["verb"], record["vm_name"], record["slot"]) == (gpu, "destroy_vgpu", VM, "vgpu0")
    return gpu, record


def records(lab: Lab) -> list[dict[str, Any]]:
    """The ledger's own word."""
    found: list[dict[str, Any]] = json.loads(lab.must(HOST, "cat", "/var/lib/vgpumgr/ledger.json")).get(
        "blocked_writes", []
    )
    return found


def findings(lab: Lab, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    """The findings of that kind that a command tells."""
    ran = vgpumgr(lab, *arguments, "-o", "json", code=code)
    return [finding for finding in json.loads(ran.out)["findings"] if finding["kind"] == "blocked-write"]


def refused(lab: Lab, *arguments: str, error: str) -> str:
    said = vgpumgr(lab, *arguments, "--yes", "-o", "json", code=5).error
    assert said["error"] == error
    return "\n".join([said["message"], *said["details"], said["hint"] or ""])


def test_its_gpu_takes_no_more_writes_and_the_rest_of_the_host_is_served(lab: Lab) -> None:
    gpu, record = hang(lab)
    kept = truth.kept(lab, HOST)
    since = lab.revisions()[HOST]

    said = refused(lab, "detach", VM, "--on", HOST, error="BlockedWrite")
    for word in (gpu, record["path"], record["since"], f"pid {record['pid']}", f"reboot {HOST}"):
        assert word in said
    said = refused(lab, "attach", THIRD, "--profile", "4Q", "--on", HOST, "--gpu-id", gpu, error="NoCapacity")
    assert f"{gpu}  A40  takes no more writes" in said
    refused(lab, "scheduler", "set", "--on", HOST, "--gpu-id", gpu, "--policy", "fixed-share", error="BlockedWrite")
    assert (truth.kept(lab, HOST), lab.writes(HOST, since=since)) == (kept, [])

    vgpumgr(lab, "attach", THIRD, "--profile", "4Q", "--on", HOST)
    vgpumgr(lab, "detach", OTHER, "--on", HOST, "--yes")
    assert {row["vm"]: row["gpu"] == gpu for row in vgpus(lab, HOST)} == {VM: True, THIRD: False}
    assert records(lab) == [record]


def test_whoever_looks_is_told_whom_to_stop_and_once_he_lets_go_all_is_as_before(lab: Lab) -> None:
    gpu, record = hang(lab)
    (node,) = (path for path in record["vfio"] if path.count("/") == 3)
    holder = lab.must(HOST, f"setsid sleep 600 5<>{node} >/dev/null 2>&1 & echo $!").strip()
    finishes = ("plan", "--limit", HOST), ("reconcile", "--limit", HOST, "--yes")  # the detach, which is refused
    for command, code in ((("list",), 0), (("discover",), 0), *((command, 5) for command in finishes)):
        (found,) = findings(lab, *command, code=code)
        assert found["host"] == HOST
        for word in (f"GPU {gpu}", record["since"], f"stop sleep (pid {holder})", f"reboot {HOST}"):
            assert word in found["text"]

    lab.must(HOST, f"kill {holder}")
    lab.control(HOST, "release", vm=VM)
    wait_until(lambda: not findings(lab, "list"), "nothing blocked")
    vgpumgr(lab, "detach", VM, "--on", HOST, "--yes")
    assert [row["vm"] for row in vgpus(lab, HOST)] == [OTHER]
    assert records(lab) == []
    vgpumgr(lab, "attach", VM, "--profile", "4Q", "--on", HOST, "--gpu-id", gpu)
