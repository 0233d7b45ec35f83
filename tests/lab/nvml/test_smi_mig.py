"""MIG through the simulated nvidia-smi, in the formats of public captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.driver.migs import cut
from tests.lab.nvml.test_nvidia_smi import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.nvml.conftest import Host, Live, Smi

NO_INSTANCES = ("No GPU instances found: Not Found\n", 6)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|   ")]


def columns(text: str) -> list[list[str]]:
    """The words of the table's rows, without the border and the name's MIG."""
    return [row.strip("|").replace("MIG", "").split() for row in rows(text) if "MIG" in row]


def test_profiles_are_listed_with_what_is_left_of_them(smi: Smi, make_host: Callable[..., Host]) -> None:
    host = make_host("mig")
    cut(host.driver, host.gpu, "3g.20gb", 4)
    out, status = smi.run(host, "mig", "-lgip")
    assert status == 0
    assert [row[1:5] for row in columns(out)] == [
        ["1g.5gb", "19", "4/7", "4.75"],
        ["1g.5gb+me", "20", "1/1", "4.75"],
        ["1g.10gb", "15", "2/4", "9.62"],
        ["2g.10gb", "14", "2/3", "9.62"],
        ["3g.20gb", "9", "1/2", "19.50"],
        ["4g.20gb", "5", "1/1", "19.50"],
        ["7g.40gb", "0", "0/1", "39.25"],
    ]
    assert {len(line) for line in out.splitlines()} == {81}


def test_with_mig_off_profiles_are_listed_from_r580_on(smi: Smi, make_host: Callable[..., Host]) -> None:
    host = make_host("mig")
    assert smi.run(host, "mig", "-lgip", "-i", "1") == ("No MIG-enabled devices found.\n", 6)
    newer = host.text.replace(f"version={host.version}", "version=580.105.06")
    out, status = smi.run(newer, "mig", "-lgip", "-i", "1")
    assert (columns(out)[0][:4], status) == (["1", "1g.5gb", "19", "7/7"], 0)
    assert smi.run(make_host("vendor-vfio"), "mig", "-lgip") == ("No MIG-supported devices found.\n", 6)


def test_placements_are_listed_in_the_tools_own_two_spellings(smi: Smi, make_host: Callable[..., Host]) -> None:
    out, status = smi.run(make_host("mig"), "mig", "-lgipp", "-i", "0")
    assert status == 0
    assert out.splitlines()[3:] == [
        "GPU  0 Profile ID 14 Placements: {0,2,4}:2",
        "GPU  0 Profile ID  9 Placements: {0,4}:4",
        "GPU  0 Profile ID  5 Placement : {0}:4",
        "GPU  0 Profile ID  0 Placement : {0}:8",
    ]


def test_instances_are_made_listed_and_destroyed(live: Callable[..., Live]) -> None:
    one = live("mig")
    assert one.smi_of_host("mig", "-lgi") == NO_INSTANCES
    made, status = one.smi_of_host("mig", "-cgi", "3g.20gb:4,14:0", "-C", "-i", "0")
    assert status == 0
    half, two = one.host.gpu.instances
    assert made.splitlines() == [
        f"Successfully created GPU instance ID {half.id:>2} on GPU  0 using profile MIG 3g.20gb (ID  9)",
        f"Successfully created compute instance ID  0 on GPU  0 GPU instance ID {half.id:>2} using profile MIG 3g.20gb (ID  2)",
        f"Successfully created GPU instance ID {two.id:>2} on GPU  0 using profile MIG 2g.10gb (ID 14)",
        f"Successfully created compute instance ID  0 on GPU  0 GPU instance ID {two.id:>2} using profile MIG 2g.10gb (ID  1)",
    ]
    out, _ = one.smi_of_host("mig", "-lgi")
    assert columns(out) == [["0", "2g.10gb", "14", str(two.id), "0:2"], ["0", "3g.20gb", "9", str(half.id), "4:4"]]
    assert {len(line) for line in out.splitlines()} == {59}
    out, _ = one.smi_of_host("mig", "-lci")
    assert columns(out) == [
        ["0", str(two.id), "2g.10gb", "1", "0", "0:2"],
        ["0", str(half.id), "3g.20gb", "2", "0", "0:3"],
    ]
    assert {len(line) for line in out.splitlines()} == {70}
    out, status = one.smi_of_host("mig", "-dgi", "-gi", str(half.id))
    assert (out.splitlines(), status) == (
        [
            f"Unable to destroy GPU instance ID {half.id:>2} from GPU  0: In use by another client",
            "Failed to destroy GPU instances: In use by another client",
        ],
        19,
    )
    out, status = one.smi_of_host("mig", "-dci", "-gi", str(half.id), "-ci", "0")
    assert (out, status) == (
        f"Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID {half.id:>2}\n",
        0,
    )
    assert one.smi_of_host("mig", "-dgi", "-gi", str(half.id)) == (
        f"Successfully destroyed GPU instance ID {half.id:>2} from GPU  0\n",
        0,
    )
    assert one.smi_of_host("mig", "-dci")[1] == one.smi_of_host("mig", "-dgi")[1] == 0
    assert one.smi_of_host("mig", "-dgi") == NO_INSTANCES
    assert one.smi_of_host("mig", "-dci") == ("No compute instances found: Not Found\n", 6)


def test_what_was_made_before_a_refusal_stays(live: Callable[..., Live]) -> None:
    one = live("mig")
    out, status = one.smi_of_host("mig", "-cgi", "5,9,19")
    assert status == 23
    assert out.splitlines()[2:] == [
        "Unable to create a GPU instance on GPU  0 using profile 19: Insufficient Resources",
        "Failed to create GPU instances: Insufficient Resources",
    ]
    assert len(one.host.gpu.instances) == 2
    assert one.smi_of_host("mig", "-cgi", "8g.80gb") == ("Invalid GPU instance profile: 8g.80gb\n", 2)
    assert one.smi_of_host("mig", "-cgi", "19", "-i", "1") == ("No MIG-enabled devices found.\n", 3)


def test_the_mode_and_what_is_pending(live: Callable[..., Live]) -> None:
    one = live("mig")
    out, status = one.smi_of_host("-mig", "0", "-i", "0")
    refused = "Unable to disable MIG Mode for GPU 00000000:41:00.0: In use by another client"
    assert (out.splitlines()[0], status) == (refused, 19)
    out, status = one.smi_of_host("--gpu-reset", "-i", "0")
    assert out.splitlines()[1] == "  GPU 00000000:41:00.0: In use by another client"
    assert "Please first kill all processes using this device" in out
    assert status == 255
    one.host.driver.set_vfs(one.host.gpu.pci, on=False)
    out, status = one.smi_of_host("-i", "0", "-mig", "0")
    assert out.startswith("Warning: MIG mode is in pending disable state for GPU 00000000:41:00.0:")
    assert status == 0
    query = one.smi_of_host("-q", "-i", "0")[0]
    assert (values(query, "Current"), values(query, "Pending")) == (["Enabled"], ["Disabled"])
    one.host.driver.set_fault("nvml:GpuReset:19")
    assert one.smi_of_host("--gpu-reset", "-i", "0")[1] == 255
    one.host.driver.clear_faults()
    out, status = one.smi_of_host("--gpu-reset", "-i", "0")
    assert (out, status) == ("GPU 00000000:41:00.0 was successfully reset.\nAll done.\n", 0)
    query = one.smi_of_host("-q", "-i", "0")[0]
    assert (values(query, "Current"), values(query, "Pending")) == (["Disabled"], ["Disabled"])
    assert one.smi_of_host("-mig", "2", "-i", "0")[1] == 2


def test_a_board_that_needs_no_reset_says_so_at_once(live: Callable[..., Live]) -> None:
    one = live("mig", "kvm02")
    one.host.driver.set_vfs(one.host.gpu.pci, on=False)
    assert one.smi_of_host("-mig", "0") == ("Disabled MIG Mode for GPU 00000000:41:00.0\nAll done.\n", 0)
    assert one.smi_of_host("-mig", "1") == ("Enabled MIG Mode for GPU 00000000:41:00.0\nAll done.\n", 0)


def test_a_board_without_mig_does_not_support_it(
    smi: Smi, make_host: Callable[..., Host], live: Callable[..., Live]
) -> None:
    out, status = live("mdev-vf").smi_of_host("-mig", "1", "-i", "0")
    assert ("Not Supported" in out, status) == (True, 3)
    host = make_host("mdev-vf")
    assert values(smi.run(host, "-q", "-i", "0")[0], "Pending") == ["N/A"]


def test_a_mig_backed_vgpu_has_its_instance_and_no_utilization(smi: Smi, make_host: Callable[..., Host]) -> None:
    host = make_host("mig", "kvm02")
    instance = cut(host.driver, host.gpu, "1g.10gb")
    host.start_vm(short="1-10C")
    out, _ = smi.run(host, "vgpu", "-q")
    assert values(out, "GPU Instance ID") == [str(instance.id)]
    assert [values(out, name) for name in ("GPU", "Memory", "Jpeg")] == [["N/A"]] * 3
    assert smi.first_lines(3, host, "vgpu", "-u")[2].split()[2:] == ["-"] * 6
    assert values(smi.run(host, "-q")[0], "vGPU Heterogeneous Mode") == ["N/A"]
    assert f"{instance.id}  N/A       N/A    M+C+G   vgpu" in smi.run(host)[0]


def test_a_mig_backed_type_names_its_profile(smi: Smi, make_host: Callable[..., Host]) -> None:
    host = make_host("mig", "kvm02")
    out, _ = smi.run(host, "vgpu", "-s", "-v")
    block = out[out.index(": 0x336\n") :]  # 822
    names = ("Name", "GPU Instance Profile ID", "Max Instances", "Max Instances Per GI")
    assert [values(block, name)[0] for name in names] == ["NVIDIA H100-2-20C", "14", "3", "1"]
    assert "Max Instances Per GI" not in smi.run(make_host("mig"), "vgpu", "-s", "-v")[0]  # R570
