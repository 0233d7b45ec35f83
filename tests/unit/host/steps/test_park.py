"""An idle vGPU that is moved out for a moment: its entry stays, so nobody else gets its place, and it comes back the same."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import (
    HARDWARE,
    MDEV_VF,
    Asker,
    FakeHost,
    host_with_vgpu,
    locked,
    make_entry,
    make_evacuate,
    make_server,
    make_step,
    two_gpus,
)
from vgpumgr.host.steps import params

if TYPE_CHECKING:
    from pathlib import Path

each_hardware = pytest.mark.parametrize("framework", HARDWARE)


def on_hardware(asker: Asker) -> list[Any]:
    parents = [parent for gpu in asker.ask("observe", wait_s=0)["ok"]["gpus"] for parent in gpu["parents"]]
    return [vgpu["uuid"] for parent in parents for vgpu in parent["vgpus"]]


@each_hardware
def test_it_goes_from_the_hardware_alone_and_is_made_again_in_its_place(tmp_path: Path, framework: str) -> None:
    host = host_with_vgpu(tmp_path, framework, later="kept")
    before, ledger = host.tree(), host.ledger_file.read_text()
    asker = locked(host)
    assert asker.execute(make_evacuate(framework))["ok"]["note"] is None
    assert on_hardware(asker) == []
    assert host.ledger_file.read_text() == ledger
    assert "ok" in asker.execute(make_step(framework))
    assert on_hardware(asker) == [make_step(framework)["uuid"]]
    assert host.entries() == [make_entry(framework, later="kept")]
    host.params(make_step(framework)["uuid"] or make_step(framework)["parent"]).unlink()  # an older driver has none
    after = host.tree()
    del before["var/lib/vgpumgr/ledger.json"], after["var/lib/vgpumgr/ledger.json"]
    assert after == before


@pytest.mark.parametrize("state", ["planned", "leaving", None])
def test_what_is_not_made_and_ours_is_never_evacuated(tmp_path: Path, state: str | None) -> None:
    host = host_with_vgpu(tmp_path, MDEV_VF, later="kept")
    host.put_ledger(*([make_entry(MDEV_VF, state=state)] if state else []))
    asker = locked(host)
    before = host.tree()
    assert asker.execute(make_evacuate(MDEV_VF))["err"]["kind"] == "Changed"
    assert host.tree() == before


# the plugin's parameters


def with_params(root: Path, framework: str, text: str) -> tuple[FakeHost, str]:
    host = host_with_vgpu(root, framework, later="kept")
    step = make_step(framework)
    device = step["uuid"] or step["parent"]
    host.put_params(device, text)
    return host, device


@each_hardware
@pytest.mark.parametrize("text", ["frame_rate_limiter=0,disable_vnc=1", "\xe9" * 1023])
def test_its_parameters_come_back_with_it_to_the_last_character(tmp_path: Path, framework: str, text: str) -> None:
    host, device = with_params(tmp_path, framework, "")
    host.params(device).write_bytes(text.encode("latin-1") + b"\n")
    asker = locked(host)
    asker.execute(make_evacuate(framework))
    assert not host.params(device).exists()
    assert host.entries()[0]["vgpu_params"] == text
    assert asker.execute(make_step(framework))["ok"]["note"] is None
    assert host.params(device).read_bytes() == text.encode("latin-1") + b"\n"
    assert host.entries() == [make_entry(framework, later="kept", vgpu_params=text)]


@each_hardware
def test_they_survive_a_kill_between_out_and_back(tmp_path: Path, framework: str) -> None:
    """Out; then another run is cut off between the vGPU and its parameters; then the next enters it."""
    host, device = with_params(tmp_path, framework, "enable_uvm=1")
    first = make_server(host)
    asker = Asker(first.answer)
    asker.lock()
    asker.execute(make_evacuate(framework))
    first.close()
    again = locked(host)
    entry = host.entries()[0]
    step = make_step(framework)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    host.put_params(device, "")
    host.put_ledger({**entry, "state": "planned"})
    answer = again.execute({**step, "expect": "same"})
    assert answer["ok"]["note"] is None
    assert host.params(device).read_text() == "enable_uvm=1\n"
    assert host.entries() == [make_entry(framework, later="kept", vgpu_params="enable_uvm=1")]


def test_parameters_that_are_refused_are_told_and_kept_for_the_next_time(tmp_path: Path) -> None:
    host, device = with_params(tmp_path, MDEV_VF, "enable_uvm=1")
    refused = ["vgpu_params"]

    def write(path: str, data: bytes) -> None:
        if path.rpartition("/")[2] in refused:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        host.driver_write(path, data)

    asker = locked(host, write=write)
    asker.execute(make_evacuate(MDEV_VF))
    note = asker.execute(make_step(MDEV_VF))["ok"]["note"]
    assert "could not be written (EPERM): enable_uvm=1" in note
    assert host.entries()[0]["vgpu_params"] == "enable_uvm=1"
    refused.clear()
    asker.execute(make_evacuate(MDEV_VF))
    asker.execute(make_step(MDEV_VF))
    assert host.params(device).read_text() == "enable_uvm=1\n"
    assert "vgpu_params_unwritten" not in host.entries()[0]


@pytest.mark.parametrize("framework", HARDWARE)
def test_a_new_vgpu_whose_asked_parameters_are_refused_is_removed_again(tmp_path: Path, framework: str) -> None:
    """Else everybody would take it for what was asked. One that had its entry stays: its VM could not start without it."""
    host = two_gpus(tmp_path, framework)
    before = host.tree()

    def write(path: str, data: bytes) -> None:
        if path.endswith("vgpu_params"):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        host.driver_write(path, data)

    asker = locked(host, write=write)
    refused = asker.execute(make_step(framework, param="enable_uvm=1"))["err"]
    assert (refused["kind"], refused["errno"]) == ("SysfsRefused", "ENOENT")
    assert "could not be written (ENOENT): enable_uvm=1" in refused["message"]
    assert host.entries() == []
    assert {name for name in host.tree() if "vgpumgr" not in name} == {name for name in before if "vgpumgr" not in name}
    host.put_ledger(make_entry(framework, vgpu_params="enable_uvm=1"))
    assert "could not be written" in asker.execute(make_step(framework, param="enable_uvm=1"))["ok"]["note"]


def test_a_read_that_does_not_return_is_no_reason_to_hang_and_nothing_is_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, device = with_params(tmp_path, MDEV_VF, "")
    host.params(device).unlink()
    os.mkfifo(host.params(device))  # nobody will ever write to it
    monkeypatch.setattr(params, "READ_S", 0.05)
    asker = locked(host)
    ledger = host.ledger_file.read_text()
    error = asker.execute(make_evacuate(MDEV_VF))["err"]
    assert (error["kind"], "does not return" in error["waits_for"][0]) == ("NotYet", True)
    assert host.ledger_file.read_text() == ledger
    assert len(on_hardware(asker)) == 1
    with host.params(device).open("w"):  # the child that was left behind ends
        pass
