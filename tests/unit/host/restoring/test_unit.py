"""The systemd unit and the hook: what the unit says, and that their files come and go as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vgpumgr.host.dispatcher import FOLDER, RESTORE
from vgpumgr.host.files import Root
from vgpumgr.host.restoring import unit
from vgpumgr.host.restoring.restore import ROUND_TIMEOUT_S, RUN_S


@pytest.fixture
def root(tmp_path: Path) -> Root:
    for folder in (FOLDER, unit.UNITS, Path(unit.HOOK).parents[1].as_posix()):
        (tmp_path / folder[1:]).mkdir(parents=True)
    return Root(tmp_path)


def test_it_runs_after_the_driver_and_before_whatever_starts_vms() -> None:
    lines = dict(
        line.split("=", 1) for line in unit.texts()[unit.UNIT].decode().splitlines() if "=" in line and line[0] != "#"
    )
    assert {"nvidia-vgpud.service", "nvidia-vgpu-mgr.service"} <= set(lines["After"].split())
    assert {"libvirtd.service", "virtqemud.service", "libvirt-guests.service"} == set(lines["Before"].split())
    assert lines["ExecStart"].endswith(" /opt/vgpumgr-host/dispatcher restore")
    assert lines["TimeoutStartSec"] == "15min"
    assert RUN_S + 2 * ROUND_TIMEOUT_S <= 15 * 60  # it waits for the lock, and for the step that is under way
    assert lines["ProtectHome"] == "read-only"  # the host's lock is on /root


def test_what_is_put_is_enabled_and_what_is_removed_leaves_nothing(root: Root) -> None:
    before = sorted(Path(root.top).rglob("*"))
    assert not unit.is_enabled(root)
    for program in (b"old", b"new"):
        unit.put(root, program)
        assert unit.is_enabled(root)
        assert Path(root.path(RESTORE)).read_bytes() == program
    assert str(Path(root.path(unit.LINK)).readlink()) == unit.UNIT
    assert os.access(root.path(unit.HOOK), os.X_OK)
    unit.remove(root)
    assert sorted(Path(root.top).rglob("*")) == before
    unit.remove(root)


def test_a_unit_or_hook_that_somebody_changed_or_disabled_is_not_enabled(root: Root) -> None:
    unit.put(root, b"program")
    Path(root.path(unit.LINK)).unlink()
    assert not unit.is_enabled(root)
    unit.put(root, b"program")
    for path in (unit.UNIT, unit.HOOK):
        unit.put(root, b"program")
        assert unit.is_enabled(root)
        Path(root.path(path)).write_bytes(b"#!/bin/sh\n")
        assert not unit.is_enabled(root)
