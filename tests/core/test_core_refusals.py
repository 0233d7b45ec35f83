"""A bare errno from /sys is told as its ranked likely causes, whatever the file and whatever the errno."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.law import LAW
from vgpumgr.core import refusals

CREATE = "/sys/bus/pci/devices/0000:41:00.4/mdev_supported_types/nvidia-560/create"
VF_TYPE = "/sys/bus/pci/devices/0000:41:00.4/nvidia/current_vgpu_type"


@pytest.mark.parametrize(
    ("path", "name", "first"),
    [
        (CREATE, "EUSERS", "no instance of this type is left on this parent"),
        (CREATE, "EROFS", "/sys is mounted read-only there: is the host a container?"),
        (VF_TYPE, "EPERM", "a VM or another process holds it"),
        (VF_TYPE, "NONE", "the driver took the write and did nothing"),
        ("/sys/x/remove", "EBUSY", "a VM or another process holds it"),
    ],
)
def test_the_likeliest_cause_comes_first(path: str, name: str, first: str) -> None:
    assert refusals.explain(path, name, "kvm01").causes[0] == first


@LAW
@given(
    st.sampled_from([CREATE, VF_TYPE, "/sys/x/remove", ""]), st.sampled_from([*errno.errorcode.values(), "NONE", "?"])
)
def test_every_errno_has_a_cause_and_a_next_command(path: str, name: str) -> None:
    found = refusals.explain(path, name, "kvm01")
    assert found.causes
    assert all(found.causes)
    assert found.hint == (
        "dmesg on kvm01 has the driver's own words (grep NVRM or nvidia-vgpu); then run the same command again"
    )


@LAW
@given(st.integers())
def test_every_number_of_nvml_has_a_cause_and_a_next_command(code: int) -> None:
    found = refusals.explain_nvml(code, "kvm01")
    assert found.causes
    assert all(found.causes)
    assert "kvm01" in found.hint or "modprobe nvidia" in found.hint
    assert "{" not in found.hint


def test_a_file_of_etc_is_not_explained_as_the_drivers() -> None:
    found = refusals.explain("/etc/modprobe.d/vgpumgr.conf", "EROFS", "kvm01")
    assert found.causes[0].startswith("/etc is mounted read-only")
    assert "dmesg" not in found.hint
