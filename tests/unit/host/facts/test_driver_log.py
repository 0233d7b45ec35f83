"""What the driver logged, read as it was written: from a moment on, only its own lines, bounded, and never an error."""

from __future__ import annotations

import errno
import json
import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from tests.unit.host.fakehost import MDEV_VF, FakeHost, execute, make_entry, make_step
from vgpumgr.host.facts import driver_log
from vgpumgr.host.facts.driver_log import from_now, of_this_boot
from vgpumgr.host.files import Root

REFUSED = "NVRM: Failed to add vgpu create request: 0x56"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    (tmp_path / "dev").mkdir()
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "dev/kmsg").touch()
    return Root(tmp_path)


def kernel(root: Root, *lines: str) -> None:
    with open(root.path(driver_log.KMSG), "a", encoding="utf-8") as records:  # noqa: PTH123 -- as the host program names it
        records.writelines(f"4,{number},17,-;{line}\n SUBSYSTEM=pci\n" for number, line in enumerate(lines))


def journal(root: Root, script: str) -> None:
    path = root.path(driver_log.JOURNALCTL)
    with open(path, "w", encoding="utf-8") as program:  # noqa: PTH123
        program.write(f"#!/bin/sh\n{script}\n")
    os.chmod(path, 0o755)  # noqa: PTH101


def entries(*messages: object) -> str:
    """A journalctl that prints these messages of nvidia-vgpu-mgr, and keeps what it was asked."""
    lines = [json.dumps({"MESSAGE": one, "SYSLOG_IDENTIFIER": "nvidia-vgpu-mgr"}) for one in messages]
    return f'echo "$@" >"$0.asked"\nprintf "%s\\n" {shlex.join(lines)}'


def test_only_what_the_driver_said_since_is_told_the_kernel_first(root: Root) -> None:
    kernel(root, "NVRM: before", "usb 1-1: before")
    journal(
        root, entries("error: vmiop_log: (0x0): init_device_instance failed", "notice: vmiop_log: (0x0): FRL Value")
    )
    with from_now(root) as logged:
        kernel(root, *[REFUSED] * 99, "usb 1-1: new device", "nvidia 0000:41:00.4: odd; line")
        assert logged() == [
            f"kernel: {REFUSED}",
            "kernel: nvidia 0000:41:00.4: odd; line",
            "nvidia-vgpu-mgr: error: vmiop_log: (0x0): init_device_instance failed",
        ]
    with open(f"{root.path(driver_log.JOURNALCTL)}.asked", encoding="utf-8") as asked:  # noqa: PTH123
        words = asked.read().split()
    assert {"--unit=nvidia-vgpud.service", "--unit=nvidia-vgpu-mgr.service"} < set(words)
    assert any(word.startswith("--since=@") for word in words)


def test_of_the_whole_boot_the_newest_lines_are_told(root: Root) -> None:
    journal(root, entries(*(f"error: {number}" for number in range(300))))
    kernel(root, *(f"NVRM: {number}" for number in range(5000)))
    told = of_this_boot(root)
    assert told == [f"kernel: NVRM: {number}" for number in range(4800, 5000)] + [
        f"nvidia-vgpu-mgr: error: {number}" for number in range(100, 300)
    ]


def test_a_line_that_comes_again_is_among_the_newest(root: Root) -> None:
    kernel(root, "NVRM: again", *(f"NVRM: {number}" for number in range(200)), "NVRM: again")
    assert of_this_boot(root)[-1] == "kernel: NVRM: again"


@pytest.mark.parametrize(
    "script",
    [
        "exit 1",
        "echo no JSON; echo [] 7 null",
        "echo '{\"MESSAGE\": [1, 2]}'",
        "kill -9 $$",
        "yes '['|head -c99999; exec sleep 9",
    ],
)
def test_a_journal_that_cannot_be_read_is_none(root: Root, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_log, "_JOURNAL_S", 0.2)
    journal(root, script)
    kernel(root, REFUSED)
    assert of_this_boot(root) == [f"kernel: {REFUSED}"]


def test_a_host_without_logs_has_said_nothing(tmp_path: Path) -> None:
    with from_now(Root(tmp_path)) as logged:
        assert logged() == []
    (tmp_path / "dev/kmsg").mkdir(parents=True)
    with from_now(Root(tmp_path)) as logged:
        assert logged() == []
    assert of_this_boot(Root(tmp_path)) == []


@given(st.binary(max_size=300))
@LAW
def test_whatever_is_in_the_log_is_lines_of_a_bounded_length(data: bytes) -> None:
    lines = [
        *driver_log._newest(filter(None, map(driver_log._message, data.splitlines())), 10),
        driver_log._message(json.dumps({"MESSAGE": data.decode("latin-1") * 9}).encode()),
    ]
    assert all(isinstance(line, str) for line in lines)
    assert all(len(line) <= 400 for line in lines[:-1])


def test_the_real_log_of_this_machine_can_be_read() -> None:
    """Whatever is in it: there is no reader that another process could disturb."""
    with from_now(Root("/")) as logged:
        assert all(line.partition(": ")[1] for line in logged())


def test_what_the_driver_may_have_refused_is_answered_with_its_lines(host: FakeHost) -> None:
    def refuse(_path: str, _text: bytes) -> None:
        kernel(Root(host.root), REFUSED)
        raise OSError(errno.EIO, "refused")

    kernel(Root(host.root), "NVRM: before")
    assert execute(host, make_step(MDEV_VF), write=refuse)["err"]["log"] == [f"kernel: {REFUSED}"]
    assert "log" not in execute(host, make_step(MDEV_VF, expect="same"))["err"], "nothing was written"


def test_what_a_step_could_not_give_is_noted_with_the_lines(host: FakeHost) -> None:
    """The vGPU is made, and the driver refuses the parameters that it had."""
    kernel(Root(host.root), "NVRM: before")
    host.put_ledger(make_entry(MDEV_VF, boot="b7000000-0000-4000-8000-00000000beef", vgpu_params="enable_uvm=1"))

    def refuse(path: str, text: bytes) -> None:
        if path.endswith("vgpu_params"):
            kernel(Root(host.root), REFUSED)
            raise OSError(errno.EIO, "refused")
        host.driver_write(path, text)

    note = execute(host, make_step(MDEV_VF), write=refuse)["ok"]["note"]
    assert note.endswith(f"; kernel: {REFUSED}")


def test_of_a_boot_what_running_plugins_say_of_licences_is_told_the_newest_last(root: Root) -> None:
    (Path(root.path("/proc/4260"))).mkdir(parents=True)
    states = [
        ("4260", "Unlicensed (Unrestricted)"),
        ("4260", "Licensed"),
        ("77", "Licensed"),
        ("4260", "Unlicensed (Unrestricted)"),
    ]
    said = [
        json.dumps(
            {
                "MESSAGE": f"notice: vmiop_log: (0x0): vGPU license state: {state}",
                "SYSLOG_IDENTIFIER": "nvidia-vgpu-mgr",
                "_PID": pid,
            }
        )
        for pid, state in states
    ]
    journal(root, f'printf "%s\\n" {shlex.join(said)}')
    told = [
        f"nvidia-vgpu-mgr[4260]: notice: vmiop_log: (0x0): vGPU license state: {state}"
        for state in ("Licensed", "Unlicensed (Unrestricted)")
    ]
    assert of_this_boot(root) == told
    with from_now(root) as logged:
        assert logged() == []
