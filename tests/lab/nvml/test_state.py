"""The state text: what is written is what the C library and the script read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vgpumgr.lab.nvml.smi.state import parse_rows
from vgpumgr.lab.nvml.state import InjectedError, escape, parse_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Nvml

# What libvirt takes for a VM's name, and more: any text without NUL.
names = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1)
fixture_is_stateless = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@given(names)
def test_an_escaped_value_is_one_token_and_comes_back(name: str) -> None:
    token = escape(name)
    assert token.isascii()
    assert token.isprintable()
    assert " " not in token
    assert parse_rows([f"vgpu vm_name={token} type=1"])["vgpu"] == [{"vm_name": name, "type": "1"}]


@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), min_size=1, max_size=15))
@fixture_is_stateless
def test_the_c_library_reads_odd_names_as_they_were_written(
    nvml: Nvml, make_host: Callable[[str], Host], name: str
) -> None:
    text = make_host("mdev-vf").text.replace("name=NVIDIA%20A40 ", f"name={escape(name)} ")
    assert nvml.ask(text, "nvmlDeviceGetName(gpus[0])") == name


def test_an_undecodable_vm_name_survives(make_host: Callable[[str], Host]) -> None:
    host = make_host("mdev-vf")
    host.start_vm("caf\udce9 %41=x")
    rows = parse_rows(host.text.splitlines())
    assert rows["vgpu"][0]["vm_name"] == "caf\udce9 %41=x"


def test_a_vgpus_own_uuid_is_another_one_after_a_reboot(host: Host) -> None:
    def own_uuid() -> str:
        host.start_vm()
        return parse_rows(host.text.splitlines())["vgpu"][0]["uuid"]

    before = own_uuid()
    host.driver.reboot("00000000-0000-4000-8000-00000000000c")
    assert own_uuid() != before


@pytest.mark.parametrize(
    ("fault", "errors"),
    [
        ("create-eio", None),
        ("nvml:DeviceGetName:15", (InjectedError(function="nvmlDeviceGetName", code=15),)),
        ("nvml:nvmlDeviceGetName:3", (InjectedError(function="nvmlDeviceGetName", code=3),)),
        ("nvml:*:999:0000:41:00.0", (InjectedError(function="*", code=999, pci="0000:41:00.0"),)),
        ("gpu-lost:0000:41:00.0", (InjectedError(function="*", code=15, pci="0000:41:00.0"),)),
        ("gpu-lost:here", None),
        ("nvml:DeviceGetName", None),
        ("nvml:DeviceGetName:x", None),
        ("nvml:Device Name:1", None),
    ],
)
def test_only_nvmls_faults_are_read_as_such(fault: str, errors: tuple[InjectedError, ...] | None) -> None:
    assert parse_fault(fault) == errors


@given(st.text(max_size=30))
@fixture_is_stateless
def test_no_fault_name_can_break_the_text(make_host: Callable[[str], Host], fault: str) -> None:
    host = make_host("mdev-pf")
    host.driver.set_fault(fault)
    assert host.text.endswith("\nend\n")
