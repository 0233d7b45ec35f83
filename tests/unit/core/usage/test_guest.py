"""What NVML on the host says of the driver in a guest, which may say anything."""

from __future__ import annotations

import pytest

from tests.unit.core.usage.test_readings import entry, instance, reading
from vgpumgr.core.usage.guest import Guest, parse

EXPIRES = "2027-01-15T08:00:00Z"


@pytest.mark.parametrize(
    ("said", "guest"),
    [
        (("570.133.20", 5, EXPIRES), Guest(driver="570.133.20", license="licensed", license_expires=EXPIRES)),
        (("570.133.20", 3, None), Guest(driver="570.133.20", license="unlicensed-restricted")),
        (("570.133.20", 0, None), Guest(driver="570.133.20")),
        (("570.133.20", 77, None), Guest(driver="570.133.20")),
        (("Not Available", None, None), None),
        (("  ", None, None), None),
        ((None, None, None), None),
        ((None, 5, "next year"), Guest(license="licensed")),
        ((None, 5, "2027-99-99T00:00:00Z"), Guest(license="licensed")),
        ((None, 5, "2027-01-15T08:00:00"), Guest(license="licensed")),
    ],
)
def test_what_is_no_version_no_state_and_no_time_is_unknown(
    said: tuple[str | None, int | None, str | None], guest: Guest | None
) -> None:
    assert parse(*said) == guest


def test_a_version_of_any_length_is_cut_to_what_nvml_has_room_for() -> None:
    guest = parse("9" * 5000, None, None)
    assert guest is not None
    assert guest.driver == "9" * 80


def test_vgpus_that_are_added_up_have_the_guest_that_all_of_them_have() -> None:
    other = {"driver": "580.1", "license": 4, "license_expires": None}
    two = [instance(1, uuid=None), instance(2, uuid=None)]
    ((vgpu,),) = (gpu.vgpus for gpu in reading(two).gpus)
    assert vgpu.guest is not None
    assert vgpu.guest.driver == "570.133.20"
    ((vgpu,),) = (gpu.vgpus for gpu in reading([two[0], {**two[1], "guest": other}]).gpus)
    assert vgpu.guest is None


def test_a_vgpu_whose_vm_is_off_has_no_guest() -> None:
    ((vgpu,),) = (gpu.vgpus for gpu in reading([], [entry("vgpu0")]).gpus)
    assert vgpu.guest is None
