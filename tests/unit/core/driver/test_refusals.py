"""A bare errno from /sys is told as its ranked likely causes, whatever the file and whatever the errno."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.driver import refusals

CREATE = "/sys/bus/pci/devices/0000:41:00.4/mdev_supported_types/nvidia-560/create"
VF_TYPE = "/sys/bus/pci/devices/0000:41:00.4/nvidia/current_vgpu_type"


@pytest.mark.parametrize(
    ("path", "name", "first"),
    [
        (CREATE, "EUSERS", "no instance of this type is left on this parent"),
        (CREATE, "EROFS", "/sys is mounted read-only: is the host a container?"),
        (VF_TYPE, "EBUSY", refusals._PLUGIN),
        (CREATE, "EIO", refusals._OTHER_SIZE),
        (VF_TYPE, "EIO", refusals._OTHER_SIZE),
        (VF_TYPE, "EPERM", "a VM or another process holds it"),
        (VF_TYPE, "NONE", "the driver accepted the write but did nothing"),
        ("/sys/x/remove", "EBUSY", "a VM or another process holds it"),
    ],
)
def test_the_likeliest_cause_comes_first(path: str, name: str, first: str) -> None:
    assert refusals.explain(path, name, "kvm01").causes[0] == first


@pytest.mark.parametrize("path", [CREATE, VF_TYPE])
def test_every_refusal_of_the_resource_manager_is_eio_so_its_causes_are_all_named_in_their_order(path: str) -> None:
    """525.85.07 turns each of its statuses into EIO: another size, a full GPU, a taken place, a lost one, an unknown type."""
    words = ("framebuffer size", "is full", "holds a vGPU already", "has lost", "has no such type", "could not do it")
    causes = refusals.explain(path, "EIO", "kvm01").causes
    found = [word for cause in causes for word in words if word in cause]
    assert len(found) == len(causes)
    assert found == [word for word in words if word in found]
    assert {"framebuffer size", "is full", "has lost", "has no such type"} <= set(found)


def test_a_type_is_taken_from_an_empty_function_with_eperm_and_the_last_cause_says_so() -> None:
    assert "another program removed it" in refusals.explain(VF_TYPE, "EPERM", "kvm01").causes[-1]


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


@pytest.mark.parametrize(
    ("code", "cause"),
    [(3, "no mixed-size mode"), (13, "R550"), (19, "whether its VM runs or not"), (15, "off the bus")],
)
def test_a_refused_mode_has_causes_of_its_own(code: int, cause: str) -> None:
    found = refusals.explain_nvml(code, "kvm01", "nvmlDeviceSetVgpuHeterogeneousMode")
    assert cause in found.causes[0]
