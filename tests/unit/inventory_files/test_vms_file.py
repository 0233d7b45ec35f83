"""A file of VMs for one command: the inventory's own mapping, by itself or under its name, and every mistake with its line."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from vgpumgr.core.driver.profiles import ByMemory, ByProfile
from vgpumgr.errors import InventoryError, UsageError
from vgpumgr.inventory_files.vms_file import load_vms

if TYPE_CHECKING:
    from pathlib import Path

TWO = "vm10: {vgpu0: {profile: 4Q}}\nvm02:\n  vgpu0: {gpu_memory: 8G, max_waste: 10}\n  vgpu1: {profile: 8C}\n"


def written(folder: Path, text: str | bytes) -> str:
    file = folder / "vms.yml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


@pytest.mark.parametrize("under_its_name", [False, True])
def test_the_mapping_stands_by_itself_or_under_its_name(tmp_path: Path, *, under_its_name: bool) -> None:
    text = "vgpumgr_vms:\n" + "".join(f"  {line}\n" for line in TWO.splitlines()) if under_its_name else TWO
    vms, findings = load_vms(written(tmp_path, text))
    assert findings == ()
    assert [(vm.name, [*vm.slots]) for vm in vms] == [("vm02", ["vgpu0", "vgpu1"]), ("vm10", ["vgpu0"])]
    slots = vms[0].slots.values()
    assert [type(slot.wish) for slot in slots] == [ByMemory, ByProfile]
    assert [slot.conditions.max_waste_pct for slot in slots] == [10, None]


def test_stdin_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TWO.encode())))
    assert [vm.name for vm in load_vms("-")[0]] == ["vm02", "vm10"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"vm02: 4Q")))
    with pytest.raises(InventoryError) as raised:
        load_vms("-")
    assert raised.value.details[0].startswith("<stdin>:1: VM 'vm02' must be a mapping")
    monkeypatch.setattr(sys, "stdin", None)  # as after <&-
    with pytest.raises(UsageError, match="stdin is closed"):
        load_vms("-")


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("", ["1: the file names no VM"]),
        ("# vm01: {}\n", ["1: the file names no VM"]),
        ("{}\n", ["1: the file names no VM"]),
        ("\nvgpumgr_vms: {}\n", ["2: the file names no VM"]),
        ("vm01: {}\n", ["1: VM 'vm01' has no slot"]),
        ("- vm01\n", ["1: vgpumgr_vms must be a mapping, found a list"]),
        ("vm01: {vgpu0: {profile: 4Q}\n", ["2: not YAML: while parsing a flow mapping"]),
        ("vm01: {profile: 4Q}\n", ["1: VM 'vm01' has 'profile' where a slot name is expected"]),
        ("vm01: {vgpu0: {profil: 4Q}}\n", ["1: slot 'vgpu0' of VM 'vm01' asks for nothing", "1: unknown key 'profil'"]),
        ("vgpumgr_vms: {vm01: {vgpu0: {profile: 4Q}}}\nvgpumgr_site: x\n", ["2: unknown key 'vgpumgr_site' beside"]),
        (
            "vm01: {vgpu0: {profile: 4Q}}\nvm01: {vgpu0: {profile: 8Q}}\n",
            ["2: 'vm01' is given twice (first in line 1)"],
        ),
        ("vm01: {vgpu0: {profile: '{{ size }}'}}\n", ["1: profile of slot 'vgpu0' of VM 'vm01' is a Jinja template"]),
    ],
)
def test_every_problem_is_named_with_its_line(tmp_path: Path, text: str, details: list[str]) -> None:
    file = written(tmp_path, text)
    with pytest.raises(InventoryError) as raised:
        load_vms(file)
    found = raised.value.details
    assert len(found) == len(details), found
    assert [row.startswith(f"{file}:{start}") for row, start in zip(found, details, strict=True)] == [True] * len(found)
    assert (raised.value.exit_code, "nothing was changed" in raised.value.message) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"vm01: {vgpu0: {profile: 4Q}}\n# \xff\n", "vms.yml:2: not UTF-8"),
        (b"$ANSIBLE_VAULT;1.1;AES256\n", "encrypted"),
    ],
)
def test_what_is_no_text_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_vms(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_vms(str(tmp_path / "nosuch"))


def test_a_slot_names_its_policy(tmp_path: Path) -> None:
    (vm,), _ = load_vms(written(tmp_path, "vm01: {vgpu0: {profile: 4Q, policy: pack}}\n"))
    assert [slot.policy for slot in vm.slots.values()] == ["pack"]
