"""A removal that the real kernel lets sleep: it stalls nobody, and its GPU takes no more writes until it has returned."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.controllers import wait_until
from tests.kernel import cases, seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

_HOLDER = Path(__file__).with_name("hidden_holder.py")
_STATE = "ps -o stat= -o wchan= -p {}"


@contextmanager
def hidden_holder(vm: Vm, device: str) -> Iterator[None]:
    """Hold an mdev by descriptors that no process has in its table, until the end of the `with`."""
    vm.must("cat >/run/hidden_holder.py", text=_HOLDER.read_text(encoding="utf-8"))
    group = seen.group(vm, device).rpartition("/")[2]
    holder = subprocess.Popen(
        vm.ssh_command("python3 /run/hidden_holder.py", group, device),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == "held\n"
        yield
    finally:
        holder.stdin.close()
        holder.wait(300)
        holder.stdout.close()


def test_a_removal_that_sleeps_stalls_nobody_and_its_gpu_takes_no_write_until_it_has_returned(vm: Vm) -> None:
    case = cases.VF
    vgpumgr(vm, "attach", case.guest, "--profile", case.profile)
    (row,) = vgpus(vm)
    with hidden_holder(vm, row["uuid"]):
        assert seen.open_vfio(vm, case.guest) == set()
        vgpumgr(vm, "detach", case.guest, "--yes", "--timeout", "30", "-o", "json", code=1)
        (finding,) = [
            one for one in vgpumgr(vm, "list", "-o", "json").document["findings"] if one["kind"] == "blocked-write"
        ]
        pid = finding["text"].partition("(pid ")[2].partition(" ")[0]
        # It sleeps so that a signal wakes it (S), and once one has come so that none does (D): vfio_unregister_group_dev.
        vm.must("kill -KILL", pid)
        state, sleeps_in = vm.must("sleep 1;", _STATE.format(pid)).split()
        assert state.startswith("D")
        assert sleeps_in.startswith("vfio_unregister")
        # The device is gone from /sys, and its place is not free: both are the kernel's.
        assert seen.hardware(vm) == {}
        before = seen.kept(vm)
        refused = vgpumgr(vm, "attach", "vm04", "--profile", case.profile, "-o", "json", code=5).error
        assert "takes no more writes" in " ".join([refused["message"], *refused["details"]])
        vgpumgr(vm, "detach", case.guest, "--yes", "-o", "json", code=5)
        assert seen.kept(vm) == before
        vgpumgr(vm, "attach", cases.PF.guest, "--profile", cases.PF.profile)
    wait_until(lambda: vm.ssh(_STATE.format(pid)).returncode != 0, "the write has returned")
    vgpumgr(vm, "detach", case.guest, "--yes")
    assert [entry["vm_name"] for entry in seen.ledger(vm)] == [cases.PF.guest]
    vgpumgr(vm, "attach", "vm04", "--profile", case.profile)
    assert not [one for one in vgpumgr(vm, "list", "-o", "json").document["findings"] if one["kind"] == "blocked-write"]
