"""Time slices on simulated hosts: set on GPUs with idle vGPUs, refused on others, kept in modprobe.d, taken back where it fails.

kvm01 reads nvml.h's rule as it stands (an idle vGPU is in the way), kvm02 the other way round; kvm03 is r595 without mdev.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import inventories, truth
from tests.acceptance.command import vgpumgr
from tests.turn import in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.acceptance.command import Ran
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 4}, {board: A40, vfs: 4}], vms: ["a[1:2]"], foreign: [{gpu: 1, vf: 0, type: A40-4Q}]}
  kvm02: {driver: 570, boards: [{board: A40, vfs: 4}], vms: ["b[1:2]"], scheduler_counts_idle: false}
  kvm03: {driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 4}], vms: ["c[1:2]"]}
"""
VMS = {"kvm01": ("a1", "a2"), "kvm02": ("b1", "b2"), "kvm03": ("c1", "c2")}
GPU, OTHER = "0000:41:00.0", "0000:81:00.0"
CONF = "/etc/modprobe.d/nvidia.conf"
THEIRS = """# site settings
options nvidia NVreg_EnableMSI=1 NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmFoo=0x7;pci=0000:99:00.0;RmPVMRL=0x01"
options nvidia-drm modeset=0
"""


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    """Each host's first GPU has two idle vGPUs; no test takes them away."""
    lab = lab_factory(SPEC, own="its drivers read the rule of idle vGPUs in two ways")

    def attach(host: str) -> None:
        for vm in VMS[host]:
            vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", host, "--gpu-id", GPU)

    with ThreadPoolExecutor(len(VMS)) as pool:
        list(pool.map(attach, VMS))
    return lab


@pytest.fixture
def given(lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A host (kvm01 unless the test names one) with options of its owner, and none of ours: so whatever is set is new."""
    host = str(getattr(request, "param", "kvm01"))
    lab.must(host, f"rm -f /etc/modprobe.d/*.conf; cat > {CONF}", text=THEIRS)
    yield host
    for vm in VMS[host]:
        lab.control(host, "release", vm=vm)
    assert len(truth.ledger(lab, host)) == len(VMS[host])


def set_policy(lab: Lab, host: str, policy: str, *more: str, code: int = 0, gpu: str = GPU) -> Ran:
    named = ("--on", host, "--gpu-id", gpu, "--policy", policy)
    return vgpumgr(lab, "scheduler", "set", *named, *more, "--yes", "-o", "json", code=code)


def show(lab: Lab, host: str, gpu: str = GPU) -> dict[str, Any]:
    document = vgpumgr(lab, "scheduler", "show", host, "-o", "json").document
    (row,) = [row for row in document["hosts"][0]["gpus"] if row["pci"] == gpu]
    assert isinstance(row, dict)
    return row


def policy_of(lab: Lab, host: str, gpu: str = GPU) -> str:
    """What `nvidia-smi vgpu -ss` says."""
    blocks = lab.must(host, "nvidia-smi vgpu -ss").split("GPU 0000")
    (block,) = [block for block in blocks if block.startswith(gpu.upper())]
    found = re.search(r"Scheduler Policy\s*: (.*)", block)
    assert found
    return found[1].strip()


def conf(lab: Lab, host: str) -> str:
    return lab.must(host, "cat /etc/modprobe.d/*.conf")


def everything(lab: Lab, host: str) -> tuple[str, str, str]:
    """vGPUs, ledger and definitions; the policy; modprobe.d."""
    return truth.kept(lab, host), policy_of(lab, host), conf(lab, host)


# Set


@pytest.mark.parametrize("given", in_turn(VMS), indirect=True)
def test_two_idle_vgpus_are_the_same_after_a_policy_was_set_and_a_held_one_refuses_it(lab: Lab, given: str) -> None:
    """nvidia-smi shows it, modprobe.d keeps its other dwords; refused while a VM holds one, naming it: nothing changes."""
    before = truth.kept(lab, given)
    done = set_policy(lab, given, "fixed-share", "--time-slice", "2ms").document
    assert (done["schema"], done["outcomes"]) == ("vgpumgr.change/1", ["done"])
    assert [step["verb"] for step in done["plan"]] == ["set_scheduler", "write_modprobe"]
    assert done["plan"][0]["around"] == [f"{vm} vgpu0" for vm in VMS[given]]
    value = "0x001f4011" if given == "kvm03" else "0x00020013"
    assert truth.kept(lab, given) == before
    assert policy_of(lab, given) == "Fixed Share"
    assert conf(lab, given) == THEIRS.replace("RmFoo=0x7;", f"RmFoo=0x7;RmPVMRL={value};")

    since = lab.revisions()[given]
    assert set_policy(lab, given, "fixed-share", "--time-slice", "2ms").document["outcomes"] == ["unchanged"]
    assert lab.writes(given, since=since) == []

    state = everything(lab, given)
    vm = VMS[given][1]
    lab.control(given, "hold", vm=vm)
    refused = set_policy(lab, given, "equal-share", code=5).error
    assert refused["error"] == "InUse"
    assert f"{vm} is in use" in refused["message"]
    assert refused["hint"] == f"shut {vm} down first; nothing in use is ever removed"
    assert everything(lab, given) == state
    assert lab.writes(given, since=since) == []


def test_check_shows_the_plan_and_writes_nothing(lab: Lab, given: str) -> None:
    before, since = everything(lab, given), lab.revisions()[given]
    named = ("--on", given, "--gpu-id", GPU, "--policy", "fixed-share", "--frequency", "480")
    ran = vgpumgr(lab, "scheduler", "set", *named, "--check", "--diff", code=3)
    marks = [line.split()[0] for line in ran.out.splitlines() if re.match(r"  \S", line)]
    assert marks == ["~", "?", "?", "~"]
    assert "-> fixed-share, 480 Hz (2.083 ms)" in ran.out
    assert "+options nvidia NVreg_EnableMSI=1" in ran.out
    assert everything(lab, given) == before
    assert lab.writes(given, since=since) == []


# Show


def test_show_tells_both_layers_and_what_is_not_verified(lab: Lab, given: str) -> None:
    """Unverified while idle, verified while a VM runs; pending until the next boot, loaded after it, with the same policy."""
    set_policy(lab, given, "fixed-share", "--time-slice", "2ms")
    row = show(lab, given)
    assert (row["policy"], row["time_slice_ns"], row["verified"], row["state"]) == (
        *("fixed-share", None, False),
        "pending_reboot",
    )
    assert row["persistent"] == {
        "text": "fixed-share, time slice 2 ms",
        "policy": "fixed-share",
        "time_slice_ns": 2_000_000,
        "frequency_hz": None,
        "averaging_factor": None,
        "arr": False,
        "value": "0x00020013",
        "file": CONF,
        "per_device": True,
        "state": "pending_reboot",
    }
    line = next(line for line in vgpumgr(lab, "scheduler", "show", given).out.splitlines() if GPU in line)
    assert "fixed-share  2 ms?" in line

    lab.control(given, "hold", vm=VMS[given][0])
    row = show(lab, given)
    assert (row["time_slice_ns"], row["verified"]) == (2_000_000, True)
    lab.control(given, "release", vm=VMS[given][0])


def test_after_a_reboot_the_policy_is_there_and_the_same_command_brings_the_vgpus_back(lab: Lab, given: str) -> None:
    set_policy(lab, given, "fixed-share", "--time-slice", "3ms")  # it stays loaded, so no other test sets it
    before = truth.hardware(lab, given)
    lab.control(given, "reboot")
    assert policy_of(lab, given) == "Fixed Share"
    assert show(lab, given)["persistent"]["state"] == "loaded"
    done = set_policy(lab, given, "fixed-share", "--time-slice", "3ms").document
    assert {step["verb"] for step in done["plan"]} == {"create_vgpu"}
    after = truth.hardware(lab, given)
    assert {device: after.get(device) for device in before if before[device][0].startswith("0000:41")} == {
        device: place for device, place in before.items() if place[0].startswith("0000:41")
    }


def test_a_scheduler_that_is_declared_for_a_board_is_set_on_each_of_its_gpus_but_for_those_with_an_entry(
    lab: Lab, given: str, tmp_path: Path
) -> None:
    """2 ms fixed share on all A40, of two hosts; the L40S and the GPU with a policy of its own stay as they are."""
    lab.must("kvm02", "rm -f /etc/modprobe.d/*.conf")
    inventory = inventories.copy(lab, tmp_path)
    (inventory / "group_vars").mkdir(exist_ok=True)
    fixed = "vgpumgr_boards: {A40: {scheduler: {policy: fixed-share, time_slice: 2ms}}}\n"
    (inventory / "group_vars/all.yml").write_text(fixed, encoding="utf-8")
    own = f'vgpumgr_gpus: {{"{OTHER}": {{scheduler: {{policy: best-effort}}}}}}\n'
    (inventory / f"host_vars/{given}.yml").write_text(own, encoding="utf-8")
    vgpumgr(lab, "reconcile", "-i", str(inventory), "--yes")
    hosts = vgpumgr(lab, "scheduler", "show", "-i", str(inventory), "-o", "json").document["hosts"]
    shown = {(host["name"], gpu["pci"]): gpu for host in hosts for gpu in host["gpus"]}
    assert {
        key: (gpu["policy"], gpu["persistent"]["time_slice_ns"], gpu["declared_where"])
        for key, gpu in shown.items()
        if key[0] != "kvm03"
    } == {
        (given, GPU): ("fixed-share", 2_000_000, "group_vars/all.yml:1, every A40"),
        (given, OTHER): ("best-effort", None, f"host_vars/{given}.yml:1"),
        ("kvm02", GPU): ("fixed-share", 2_000_000, "group_vars/all.yml:1, every A40"),
    }
    assert shown["kvm03", GPU]["declared_where"] is None
