"""The host's own services, or the whole host, fail in the middle of an attach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.rig import HALTED, check, held, must

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

# The matrix has every moment, and each framework at all of them.
POINTS = ("request:2", "before:create_vgpu", "before:bind_claim")
_SOON = ("--timeout", "10")  # of each stage: a busy machine needs a second or two for one


@pytest.mark.parametrize("point", POINTS)
def test_libvirtd_killed(rig: Rig, tmp_path: Path, point: str) -> None:
    """The attach ends clearly; once libvirtd is back, the same command ends well."""
    with held(rig, "attach", "c01", at=point, file=tmp_path / "hold") as one:
        rig.lab.control("vf03", "fault", name="libvirtd-down")
    must(one, *HALTED)
    assert "libvirt" in one.err
    must(rig.attach("c02"), 4)
    rig.lab.control("vf03", "clear")
    must(rig.attach("c01"))
    check(rig, "vf03", {"c01": "2Q"})


@pytest.mark.parametrize("point", ["request:2", "before:attach_hostdev"])
def test_libvirtd_stopped(rig: Rig, tmp_path: Path, point: str) -> None:
    """It ends within its deadlines; what libvirtd does late, when it goes on, harms nothing."""
    with held(rig, "attach", "c01", *_SOON, at=point, file=tmp_path / "hold") as one:
        rig.lab.must("vf03", "kill -STOP $(cat /run/libvirtd.pid)")
    try:
        must(one, *HALTED)
    finally:
        rig.lab.must("vf03", "kill -CONT $(cat /run/libvirtd.pid)")
    must(rig.attach("c01"))
    check(rig, "vf03", {"c01": "2Q"})


def test_sshd_stopped(rig: Rig) -> None:
    """A port that answers and says nothing is named by its stage, soon, and costs nobody else anything."""
    must(rig.attach("c02"))
    rig.lab.control("vf03", "fault", name="ssh-hang")
    try:
        one = must(rig.attach("c01", "--timeout", "1"), 4)
        assert "no SSH banner within 1 s" in one.err
    finally:
        rig.lab.control("vf03", "clear")
    must(rig.attach("c01"))
    check(rig, "vf03", {"c01": "2Q", "c02": "2Q"})


@pytest.mark.parametrize(
    ("vm", "point"),
    [*(("c01", point) for point in POINTS), ("d01", "before:create_vgpu"), ("p01", "before:create_vgpu")],
)
def test_host_rebooted_in_an_attach(rig: Rig, tmp_path: Path, vm: str, point: str) -> None:
    """The vGPUs are gone with it; the same command makes the VM's again, once."""
    host = {"c01": "vf03", "d01": "vd01", "p01": "pf01"}[vm]
    with held(rig, "attach", vm, *_SOON, at=point, file=tmp_path / "hold") as one:
        rig.lab.control(host, "reboot")
    must(one, *HALTED)
    must(rig.attach(vm))
    check(rig, host, {vm: "2Q"})


def test_host_rebooted_in_a_detach(rig: Rig, tmp_path: Path) -> None:
    """What is gone by itself is taken out of ledger and claim all the same."""
    must(rig.attach("c01"))
    with held(rig, "detach", "c01", *_SOON, at="before:destroy_vgpu", file=tmp_path / "hold") as one:
        rig.lab.control("vf03", "reboot")
    must(one, *HALTED)
    must(rig.detach("c01"))
    check(rig, "vf03", {})
