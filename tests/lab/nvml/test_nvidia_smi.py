"""The simulated nvidia-smi, and the one file that it is installed as."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.nvml.nvidia_smi import nvidia_smi_program

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Nvml, Smi


def values(text: str, name: str) -> list[str]:
    """The values of all `NAME : value` lines."""
    return re.findall(rf"^ *{re.escape(name)} +: (.*)$", text, re.MULTILINE)


def test_the_program_is_one_file_for_the_hosts_own_python(smi: Smi, make_host: Callable[[str], Host]) -> None:
    host = make_host("mdev-vf")
    assert nvidia_smi_program().startswith(b"#!/usr/bin/python3\n")
    for arguments in ((), ("vgpu", "-i", "7")):
        (of_file, status), (out, wanted) = smi.run_file(host, *arguments), smi.run(host, *arguments)
        assert (_without_time(of_file), status) == (_without_time(out), wanted)


def _without_time(out: str) -> list[str]:
    """The lines but the one with the time, which may pass to the next second between two runs."""
    return [line for line in out.splitlines() if re.match(r"\w{3} \w{3} +\d+ ", line) is None]


def test_the_list_names_each_gpu_with_its_uuid(smi: Smi, host: Host) -> None:
    out, status = smi.run(host, "-L")
    wanted = [f"GPU {index}: {gpu.board.name} (UUID: {gpu.uuid})" for index, gpu in enumerate(host.gpus)]
    assert (out.splitlines(), status) == (wanted, 0)


def test_the_vgpu_table_shows_the_vm_of_a_running_vgpu(smi: Smi, host: Host) -> None:
    vgpu = host.start_vm("vm01")
    out, status = smi.run(host, "vgpu")
    assert status == 0
    row = next(line for line in out.splitlines() if str(vgpu.instance) in line)
    name = vgpu.type.name if len(vgpu.type.name) <= 14 else vgpu.type.name[:11] + "..."
    assert row == f"|      {vgpu.instance}  {name:<14} | 6a1f...  vm01                |      0%    |"
    assert {len(line) for line in out.splitlines()[1:]} == {79}


def test_the_vgpu_table_shows_a_vgpu_that_no_vm_runs_yet(smi: Smi, nvml: Nvml, host: Host) -> None:
    """The simulator's own choice; `vgpu -q` and NVML keep to what a VM holds."""
    host.make_vgpu()
    out, _ = smi.run(host, "vgpu")
    row = next(line for line in out.splitlines() if str(host.gpu.vgpus[0].instance) in line)
    assert row.endswith("| N/A      N/A                 |      0%    |")
    assert values(smi.run(host, "vgpu", "-q")[0], "Active vGPUs") == ["0"] * len(host.gpus)
    assert nvml.ask(host, "nvmlDeviceGetActiveVgpus(gpus[0])") == []


def test_the_vgpu_query_tells_what_nvml_tells(smi: Smi, nvml: Nvml, host: Host) -> None:
    vgpu = host.start_vm("a name\twith %20 and ü")
    out, _ = smi.run(host, "vgpu", "-q", "-i", "0")
    own = nvml.ask(host, "nvmlVgpuInstanceGetUUID(nvmlDeviceGetActiveVgpus(gpus[0])[0])")
    seen = [values(out, name) for name in ("vGPU ID", "VM UUID", "vGPU Type", "vGPU Name", "vGPU UUID", "MDEV UUID")]
    mdev = vgpu.uuid or "N/A"
    assert seen == [[word] for word in (str(vgpu.instance), host.vm_uuid, str(vgpu.type.id), vgpu.type.name, own, mdev)]
    assert values(out, "VM Name") == ["a name\twith %20 and ü"]
    assert values(out, "License Status") == ["N/A (Expiry: N/A)"]


def test_supported_and_creatable_types_are_nvmls(smi: Smi, nvml: Nvml, host: Host) -> None:
    host.make_vgpu()
    for option, function in (("-s", "nvmlDeviceGetSupportedVgpus"), ("-c", "nvmlDeviceGetCreatableVgpus")):
        named = nvml.ask(host, f"[nvmlVgpuTypeGetName(t) for t in {function}(gpus[0])]")
        out, status = smi.run(host, "vgpu", option, "-i", "0")
        assert status == 0
        assert [line.strip() for line in out.splitlines()[1:] if line] == named
        long = smi.run(host, "vgpu", option, "-v", "-i", "0")[0]
        assert values(long, "Name") == named
        ids = nvml.ask(host, f"{function}(gpus[0])")
        assert [int(number, 16) for number in values(long, "vGPU Type ID")] == ids
        assert set(values(long, "GPU Instance Profile ID")) == {"N/A"}


def test_a_type_block_has_the_real_tools_fields(smi: Smi, make_host: Callable[[str], Host]) -> None:
    out, _ = smi.run(make_host("mdev-vf"), "vgpu", "-s", "-v", "-i", "0")
    block = out[out.index(": 0x230") :]
    seen = [values(block, name)[0] for name in ("Name", "Class", "Max Instances", "FB Memory", "Frame Rate Limit")]
    assert seen == ["NVIDIA A40-4Q", "Quadro", "12", "4096 MiB", "60 FPS"]


def test_the_query_tells_modes_by_board_and_driver(smi: Smi, make_host: Callable[[str], Host]) -> None:
    names = ("Virtualization Mode", "Host VGPU Mode", "vGPU Heterogeneous Mode", "Heterogeneous Time-Slice Sizes")
    wanted = {
        "mdev-pf": ["Host VGPU", "Non SR-IOV", None, "Not Supported"],  # R535 has no such line
        "mdev-vf": ["Host VGPU", "SR-IOV", "Disabled", "Supported"],
        "vendor-vfio": ["Host VGPU", "SR-IOV", "Disabled", "Supported"],
    }
    for spec, modes in wanted.items():
        out, status = smi.run(make_host(spec), "-q", "-i", "0")
        assert status == 0
        assert [next(iter(values(out, name)), None) for name in names] == modes


@pytest.mark.parametrize(
    ("spec", "version", "memory"),
    [
        ("mdev-pf", "Driver Version", "FB Memory Usage"),
        ("mdev-vf", "Driver Version", "FB Memory Usage"),
        ("vendor-vfio", "KMD Version", "Shared FB Memory Usage"),
    ],
)
def test_fields_have_the_names_of_the_drivers_branch(
    smi: Smi, make_host: Callable[[str], Host], spec: str, version: str, memory: str
) -> None:
    host = make_host(spec)
    out, _ = smi.run(host, "-q")
    assert values(out, version) == [host.version]
    assert f"\n    {memory}\n" in out
    assert f"{version}: {host.version}" in smi.run(host, "vgpu")[0]


def test_all_colons_stand_in_one_column(smi: Smi, host: Host) -> None:
    """Further to the right from R580 on."""
    column = 55 if host.version.startswith("595") else 42
    for arguments in (["-q"], ["vgpu", "-q"], ["vgpu", "-s", "-v"]):
        out, _ = smi.run(host, *arguments)
        assert {line.index(" : ") + 1 for line in out.splitlines() if " : " in line} == {column}


def test_a_gpu_is_chosen_by_index_address_or_uuid(smi: Smi, make_host: Callable[[str], Host]) -> None:
    host = make_host("mdev-vf")
    second = host.gpus[1]
    bus_id = "0000" + second.pci.upper()
    for name in ("1", second.pci, bus_id, second.pci.removeprefix("0000:"), second.uuid):
        out, status = smi.run(host, "vgpu", "-s", "-i", name)
        assert status == 0
        assert re.findall("^GPU (.*)", out, re.MULTILINE) == [bus_id]
    assert len(smi.run(host, "-L", "-i", "0,1")[0].splitlines()) == 2


def test_an_unknown_gpu_is_nvmls_not_found(smi: Smi, host: Host) -> None:
    for name in ("7", "0000:ff:00.0", "GPU-00000000-0000-0000-0000-000000000000", "x", ""):
        assert smi.run(host, "vgpu", "-i", name) == ("No devices were found\n", 6)


_USAGE = {
    "ERROR: Option --frobnicate is not recognized.": ["--frobnicate"],
    "ERROR: Option -z is not recognized.": ["vgpu -z"],
    "ERROR: Option fabric is not recognized.": ["fabric"],
    "Missing value for option -i.": ["-i"],
    "Invalid combination of input arguments.": [
        *("-L -q", "vgpu -v", "vgpu -lgi", "-cgi 19", "mig", "mig -C", "mig -lgi -lci", "mig -cgi 19 -dgi"),
    ],
}


@pytest.mark.parametrize(("says", "words"), [(says, words) for says, some in _USAGE.items() for words in some])
def test_what_is_not_an_option_or_does_not_go_together_is_a_usage_error(
    smi: Smi, make_host: Callable[[str], Host], says: str, words: str
) -> None:
    out, status = smi.run(make_host("mig"), *words.split())
    assert (out.startswith(says), status) == (True, 2)


def test_help_needs_no_driver(smi: Smi) -> None:
    out, status = smi.run(None, "-h")
    assert "vgpu -s|-c" in out
    assert status == 0


@pytest.mark.parametrize("arguments", [[], ["-L"], ["vgpu"], ["vgpu", "-q"]])
def test_without_a_driver_it_says_so(smi: Smi, host: Host, arguments: list[str]) -> None:
    out, status = smi.run(None, *arguments)
    assert out.startswith("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    assert status == 9
    host.driver.set_fault("nvml-down")
    assert smi.run(host, *arguments) == (out, status)


def test_a_lost_gpu_is_named_and_the_others_can_still_be_asked(smi: Smi, make_host: Callable[[str], Host]) -> None:
    host = make_host("mdev-vf")
    host.driver.set_fault(f"gpu-lost:{host.gpu.pci}")
    out, status = smi.run(host, "vgpu")
    assert host.gpu.pci in out
    assert "GPU is lost" in out
    assert status == 15
    assert smi.run(host, "-L", "-i", "1")[1] == 0


def test_a_state_of_another_version_is_a_mismatch(smi: Smi) -> None:
    assert smi.run("nvlab 2\nend\n", "-L")[1] == 18
    assert smi.run("", "-L")[1] == 18


def test_a_torn_state_is_an_error_and_what_follows_its_end_is_not_read(smi: Smi, host: Host) -> None:
    assert smi.run(host.text.removesuffix("end\n"), "-L")[1] == 999 & 0xFF
    assert smi.run(host.text + "gpu index=7\nend\n", "-L") == smi.run(host, "-L")
