"""What a spec file may say, and that its mistakes are named with their place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit import captures, reports
from vgpumgr.core.driver.profiles import parse_type_name
from vgpumgr.errors import LabError
from vgpumgr.lab.builtin_specs import BUILTIN
from vgpumgr.lab.driver import addresses, boards
from vgpumgr.lab.driver.boards import FIRST_INVENTED_ID, board, board_codes
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec
from vgpumgr.lab.sysfs.tree import Tree
from vgpumgr.names import parse_gpu_uuid, parse_pci_address, parse_uuid
from vgpumgr.resources import catalogue_text

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", BUILTIN)
def test_every_identifier_of_a_lab_is_valid_and_its_own_host_s_alone(name: str) -> None:
    hosts = load_spec(name).hosts
    gpu_uuids = [parse_gpu_uuid(gpu.uuid) for host in hosts for gpu in host.gpus]
    vm_uuids = [parse_uuid(vm.uuid) for host in hosts for vm in host.vms]
    machines = [host.machine_id for host in hosts]
    for values in (gpu_uuids, vm_uuids, machines):
        assert len(set(values)) == len(values)
    assert all(len(machine) == 32 for machine in machines)
    assert all(parse_pci_address(gpu.pci) == gpu.pci for host in hosts for gpu in host.gpus)
    assert hosts[0].gpus[0].pci == "0000:41:00.0"
    assert load_spec(name) == load_spec(name)


def test_types_carry_the_driver_s_prefix_and_public_ids() -> None:
    names = {code: {kind.name: kind.id for kind in board(code, "test").types} for code in board_codes()}
    assert names["A40"]["NVIDIA A40-4Q"] == 560
    assert names["T4"]["GRID T4-4Q"] == 232
    assert names["A100"]["GRID A100-4C"] == 468
    assert names["L40S"]["NVIDIA L40S-1B"] == 1145
    assert names["H100"]["NVIDIA H100-10C"] >= FIRST_INVENTED_ID
    for kinds in names.values():
        assert len(set(kinds.values())) == len(kinds)
        assert all(parse_type_name(name).slices is None for name in kinds)


def test_mig_backed_types_have_public_ids_too_and_leave_those_of_the_others_as_they_were() -> None:
    a100 = board("A100", "test")
    assert {kind.name: kind.id for kind in a100.mig_types}["GRID A100-2-10C"] == 475
    assert [kind.id for kind in a100.all_types] == sorted(kind.id for kind in (*a100.types, *a100.mig_types))
    invented = {kind.name.split()[-1]: kind.id for kind in board("H100", "test").types}
    assert invented["H100-10C"] == 60114
    assert board("A40", "test").all_types == board("A40", "test").types


def test_a_gpu_may_start_in_mig_mode_with_instances_and_vgpus_that_somebody_else_made(tmp_path: Path) -> None:
    file = tmp_path / "mig.yml"
    file.write_text(
        """
hosts:
  a:
    driver: 570
    framework: mdev-vf
    boards: [{board: A100, mode: mig, instances: [2g.10gb, {profile: 3g.20gb, start: 4}]}]
    vms: [x]
    foreign: [{vf: 3, type: 2-10C, vm: x}]
declared: {a: {x: {vgpu0: {profile: 1-5C}}}}
"""
    )
    driver = Driver(host_state(load_spec(str(file)).host("a"), boot_id="b"))
    driver.make_foreign()
    gpu = driver.gpu("0000:41:00.0")
    assert [(one.profile.name, one.start) for one in gpu.instances] == [("3g.20gb", 4), ("2g.10gb", 2)]
    assert [(vgpu.type.name, vgpu.gpu_instance) for vgpu in gpu.vgpus] == [("GRID A100-2-10C", gpu.instances[1].id)]


def test_a_spec_file_has_the_same_shape(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(
        """
certificates: [hosts]
jumps: [j1, j2]
hosts:
  gpu-a:
    driver: 570.124.03
    via: [j1, j2]
    framework: vendor-vfio
    numa: 3
    boards: [A40, {board: NVIDIA L40S, pci: "0000:c1:00.0", numa: 1, vfs: 8}]
    vms: [web, "db[8:10]", {name: old, machine: pc, memory_mib: 32}]
    foreign: [{gpu: "0000:c1:00.0", vf: 5, type: 8Q, vm: old}]
  gpu-b: {driver: r535, boards: [T4, T4, T4], vms: ["vm[01:02]"], via: j1, scheduler_counts_idle: false}
declared: {gpu-b: {vm02: {vgpu0: {profile: 4Q}}}}
"""
    )
    spec = load_spec(str(file))
    first, second = spec.hosts
    assert (spec.name, spec.certificates) == ("site", ("hosts",))
    assert [(one.name, one.is_jump, one.via) for one in spec.machines] == [
        ("j1", True, ()),
        ("j2", True, ()),
        ("gpu-a", False, ("j1", "j2")),
        ("gpu-b", False, ("j1",)),
    ]
    assert spec.host("j2").is_jump
    assert [gpu.board.vfs for gpu in first.gpus] == [32, 8]
    assert [host_state(host, boot_id="b").scheduler_counts_idle for host in spec.hosts] == [True, False]
    assert [(gpu.pci, gpu.numa_node) for gpu in first.gpus] == [("0000:41:00.0", 3), ("0000:c1:00.0", 1)]
    assert [vm.name for vm in first.vms] == ["web", "db8", "db9", "db10", "old"]
    assert (first.foreign[0].vf, first.foreign[0].uuid, first.foreign[0].vm) == (5, None, "old")
    assert (second.driver_version[:3], second.gpus[0].framework, len(second.gpus)) == ("535", "mdev-pf", 3)
    assert [vm.name for vm in second.vms] == ["vm01", "vm02"]
    assert spec.declared == {"gpu-b": {"vm02": {"vgpu0": {"profile": "4Q"}}}}


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("a: b: c", "site.yaml:1: not YAML", "line"),
        ("[]", "not a mapping", "hosts"),
        ("hosts: {}", "no hosts", "boards"),
        ("hosts: {a: {boards: [A41]}}", "hosts.a.boards[0]: no board 'A41'", "A40"),
        ("hosts: {a: {boards: []}}", "hosts.a: no boards", "A40"),
        ("hosts: {a: {board: [A40]}}", "unknown key 'board'", "boards"),
        ("hosts: {a: {boards: [A40], driver: 12}}", "hosts.a.driver: not a driver version", "570"),
        ("hosts: {a: {boards: [A40], framework: mdev}}", "no framework 'mdev'", "vendor-vfio"),
        ("hosts: {a: {boards: [A40], framework: mdev-pf}}", "A40 cannot be 'mdev-pf'", "mdev-vf or vendor-vfio"),
        ("hosts: {a: {boards: [{board: T4, framework: mdev-vf}]}}", "T4 cannot be 'mdev-vf'", "mdev-pf"),
        ('hosts: {a: {boards: [{board: A40, pci: "41"}]}}', "boards[0].pci: not a PCI address", "0000:41:00.0"),
        (
            'hosts: {a: {boards: [{board: A40, pci: "0000:41:00.4"}]}}',
            "is not the address of a card itself",
            "0000:41:00.0",
        ),
        ("hosts: {a: {boards: [A40], via: j}}", "hosts.a.via: no jump host 'j'", "jumps: [j]"),
        ("jumps: [j]\nhosts: {a: {boards: [A40], via: [j, k]}}", "hosts.a.via: no jump host 'k'", "jumps: [j, k]"),
        ("jumps: [a]\nhosts: {a: {boards: [A40]}}", "jumps: a appears twice", "own name"),
        ("jumps: j\nhosts: {a: {boards: [A40]}}", "jumps: not a list: 'j'", "[one, two]"),
        ("jumps: [-j]\nhosts: {a: {boards: [A40]}}", "jumps: not a host name: '-j'", "correct"),
        ("certificates: [ghosts]\nhosts: {a: {boards: [A40]}}", "certificates: no certificates for 'ghosts'", "hosts"),
        ("hosts: {a: {boards: [A40], scheduler_counts_idle: no way}}", "not true or false: 'no way'", ""),
        ("hosts: {a: {boards: [A40], numa: x}}", "numa: not a number: 'x'", "0"),
        ("hosts: {a: {boards: [{board: A40, vfs: 33}]}}", "vfs: 33 of the VFs of A40, which has 32", "fewer"),
        ("hosts: {a: {boards: [{board: A40, vfs: 0}]}}", "vfs: 0 of the VFs of A40", "fewer"),
        ("hosts: {a: {boards: [{board: T4, vfs: 1}]}}", "vfs: 1 of the VFs of T4, which has none", "leave it out"),
        ("hosts: {a: {boards: [A40], vms: [x, x]}}", "x appears twice", "own name"),
        ("hosts: {a: {boards: [A40], vms: [a/b]}}", "vms[0].name: not a VM name", "no slash"),
        ("hosts: {a: {boards: [A40], vms: [{name: x, machine: isa}]}}", "vms[0].machine: 'isa'", "q35 or pc"),
        ("hosts: {a: {boards: [A40], foreign: [{gpu: 1, type: 4Q}]}}", "no GPU 1", "0000:41:00.0"),
        ("hosts: {a: {boards: [A40], foreign: [{type: 5Q}]}}", "A40 has no type '5Q'", "A40-4Q"),
        ("hosts: {a: {boards: [A40], foreign: [{type: 4Q, vf: 32}]}}", "no VF 32", "0 to 31"),
        ("hosts: {a: {boards: [A40], foreign: [{type: 4Q, vm: x}]}}", "no VM 'x'", "add it"),
        ("hosts: {a: {boards: [{board: A100, mode: MIG}]}}", "boards[0].mode: no mode 'MIG'", "mode: mig"),
        ("hosts: {a: {boards: [{board: A40, mode: mig}]}}", "boards[0].mode: A40 has no MIG", "leave it out"),
        ("hosts: {a: {boards: [{board: A100, instances: [2g.10gb]}]}}", "instances[0]: the GPU is not in", "mode: mig"),
        (
            "hosts: {a: {boards: [{board: A100, mode: mig, instances: [2g.20gb]}]}}",
            "boards[0].instances[0]: no profile '2g.20gb'",
            "2g.10gb",
        ),
        (
            "hosts: {a: {boards: [{board: A100, mode: mig, instances: [{profile: 2g.10gb, start: 1}]}]}}",
            "instances[0].start: 2g.10gb cannot begin at 1",
            "0 2 4",
        ),
        (
            "hosts: {a: {boards: [{board: A100, mode: mig, instances: [4g.20gb, 3g.20gb, 1g.5gb]}]}}",
            "hosts.a: a GPU does not take all the instances",
            "another start",
        ),
        ("hosts: {a: {boards: [{board: A100, mode: mig}], foreign: [{type: 4C}]}}", "no type '4C'", "A100-2-10C"),
        ("hosts: {a: {boards: [{board: A100, mode: mig}], foreign: [{type: 1-5C}]}}", "does not take all", "fewer"),
        ("{hosts: {a: {boards: [A40], vms: [x]}}, declared: {b: {}}}", "unknown key 'b'", "a"),
        (
            "{hosts: {a: {boards: [A100], vms: [x]}}, declared: {a: {x: {vgpu0: {profile: 4Q}}}}}",
            "declared.a.x.vgpu0: no board of a has '4Q'",
            "A100-4C",
        ),
    ],
)
def test_a_mistake_says_what_and_where_and_what_to_write(tmp_path: Path, text: str, message: str, hint: str) -> None:
    file = tmp_path / "site.yaml"
    file.write_text(text)
    with pytest.raises(LabError) as caught:
        load_spec(str(file))
    assert str(file) in caught.value.message
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (None, "no report", "host certify"),
        ("{", "not JSON", "again"),
        ("[]", "no report of host certify", "--report FILE"),
        ('{"schema": "vgpumgr.list/1"}', "no report of host certify", "--report FILE"),
        ('{"schema": "vgpumgr.certify/1"}', "the report is not whole: KeyError: 'capture'", "again"),
        ('{"schema": "vgpumgr.certify/1", "capture": {"snapshot": {"gpus": []}}}', "no GPU of the report", "certify"),
    ],
)
def test_a_report_that_cannot_be_imitated_says_why(tmp_path: Path, text: str | None, message: str, hint: str) -> None:
    spec, report = tmp_path / "site.yaml", tmp_path / "kvm01.txt"
    spec.write_text("hosts: {a: {like: kvm01.txt}}")
    if text is not None:
        report.write_text(text)
    with pytest.raises(LabError) as caught:
        load_spec(str(spec))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_function_has_its_cards_pci_domain_and_goes_on_to_the_next_device() -> None:
    gpu = host_state(load_spec("mdev-vf").hosts[0], boot_id="").gpus[0]
    gpu.pci = "10000:e1:00.0"
    assert [addresses.vf_pci(gpu, vf) for vf in (0, 3, 4)] == ["10000:e1:00.4", "10000:e1:00.7", "10000:e1:01.0"]


def test_a_board_that_the_lab_lacks_is_made_of_what_the_report_says_of_it(tmp_path: Path) -> None:
    [capture] = [one for one in captures.captures() if "l40s" in str(one)]
    report = json.dumps(reports.of_capture(capture, tmp_path / "host")).replace("L40S-", "H99-")
    file = tmp_path / "report.json"
    file.write_text(report)
    [gpu] = load_spec(str(file)).hosts[0].gpus
    [fact] = json.loads(report)["capture"]["snapshot"]["gpus"]
    assert (gpu.board.code, gpu.board.name, gpu.board.mig) == ("H99", fact["name"], None)
    assert [kind.name for kind in gpu.board.types] == [one["name"] for one in fact["types"]]
    assert {kind.series for kind in gpu.board.types} == {"A", "B", "Q"}
    assert [gpu.board.vfs, gpu.board.vf_offset] == [32, 4]


def test_an_unknown_spec_lists_the_built_in_ones() -> None:
    with pytest.raises(LabError, match="no spec 'nope'") as caught:
        load_spec("nope")
    assert all(name in (caught.value.hint or "") for name in BUILTIN)


@pytest.mark.parametrize("cell", ["", "n/a"])
def test_a_board_without_a_device_id_is_refused_with_its_row_and_column(
    cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = catalogue_text()
    table = shipped.replace(",2235,557,A40-1Q,", f",{cell},557,A40-1Q,")
    assert table != shipped
    monkeypatch.setattr(boards, "catalogue_text", lambda: table)
    with pytest.raises(LabError, match=rf"vgpu-types.csv: NVIDIA A40 A40-1Q: pci_device_id is '{cell}', not a PCI"):
        boards._boards.__wrapped__()  # past its cache


def test_the_fabric_of_a_host_is_seen_by_nvml_and_on_pci(tmp_path: Path) -> None:
    file = tmp_path / "hgx.yml"
    file.write_text("hosts: {kvm01: {boards: [H200X], fabric: {switches: 4, manager: stopped, mode: 2}}}")
    state = host_state(load_spec(str(file)).hosts[0], boot_id="")
    assert (state.switches, [gpu.fabric for gpu in state.gpus]) == (4, [1])
    nodes = Tree(Driver(state), lambda: "").readdir("/bus/pci/devices")
    assert sum(name.startswith("0000:07:") for name in nodes) == 4
    for wrong in ("{manager: on}", "{switches: 7}", "{mode: two}", "{switch: 1}", "[]"):
        file.write_text(f"hosts: {{kvm01: {{boards: [H200X], fabric: {wrong}}}}}")
        with pytest.raises(LabError, match=r"kvm01\.fabric"):
            load_spec(str(file))
