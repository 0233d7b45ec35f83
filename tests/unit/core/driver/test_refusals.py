"""What the driver refuses: the equal-size rule, and a bare errno from /sys told as its ranked likely causes."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.driver import admission, refusals
from vgpumgr.core.driver.admission import Refusal

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


# The equal-size rule: one size, of whatever series, at most the type's maximum


sizes = st.sampled_from([1024, 2048, 4096, 8192])


@given(size=sizes, maximum=st.integers(1, 32), count=st.integers(0, 40))
def test_beside_its_own_size_a_type_is_admitted_up_to_its_maximum(size: int, maximum: int, count: int) -> None:
    expected = None if count < maximum else Refusal.FULL
    assert admission.refusal(size, maximum, [size] * count, count) is expected
    assert admission.refusal(size, None, [size] * count, count) is None


@given(size=sizes, there=st.lists(sizes | st.none(), min_size=1))
def test_another_size_or_one_that_is_not_known_refuses_it_however_empty_the_gpu_is(
    size: int, there: list[int | None]
) -> None:
    expected = None if set(there) == {size} else Refusal.OTHER_SIZE
    assert admission.refusal(size, 1000, there, len(there)) is expected
    assert admission.refusal(None, 1000, there, len(there)) is Refusal.OTHER_SIZE


@given(offered=st.integers(0, 40), maximum=st.integers(0, 40), there=st.integers(0, 40))
def test_what_the_functions_offer_together_is_bounded_by_what_the_card_holds(
    offered: int, maximum: int, there: int
) -> None:
    left = admission.left(offered, maximum, there)
    assert 0 <= left <= offered
    assert left + there <= max(maximum, there)
    assert admission.left(offered, None, there) == offered
