"""The layer below /etc/modprobe.d: found as modprobe finds it, written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.unit.host.fakehost import CONF, FakeHost, execute, make_modprobe_step, observe, why
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.executor import parse_step

if TYPE_CHECKING:
    from collections.abc import Callable

OLD = '# kept\noptions nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x01"\n'


def put(host: FakeHost, name: str, data: str | bytes) -> Path:
    path = host.path(f"/etc/modprobe.d/{name}")
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def names(host: FakeHost) -> list[str]:
    return sorted(os.listdir(host.path("/etc/modprobe.d")))  # noqa: PTH208 -- names, not paths


# read


def test_our_own_file_is_told_also_where_its_line_is_a_comment(host: FakeHost) -> None:
    put(host, "vgpumgr.conf", "# options nvidia NVreg_Foo=1\n")
    assert [row["path"] for row in observe(host)["modprobe"]] == ["/etc/modprobe.d/vgpumgr.conf"]


@pytest.mark.parametrize(
    "line",
    [
        "options nvidia NVreg_EnableGpuFirmware=0",
        "  options\tnvidia\tNVreg_X=1",
        "install x true\noptions nvidia",
        "options \\\nnvidia NVreg_X=1",
    ],
)
def test_a_file_with_options_for_nvidia_is_told_whole(host: FakeHost, line: str) -> None:
    put(host, "a.conf", f"# first\n{line}\n")
    assert observe(host)["modprobe"] == [{"path": "/etc/modprobe.d/a.conf", "text": f"# first\n{line}\n"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conf", "options nvidia-drm modeset=1"),
        ("a.conf", "options nvidia_uvm x=1"),
        ("a.conf", "#options nvidia x=1"),
        ("a.conf", "blacklist nvidia"),
        ("a.conf", ""),
        ("a.conf.vgpumgr-new", "options nvidia x=1"),
        ("a.conf~", "options nvidia x=1"),
        (".a.conf", "options nvidia x=1"),
    ],
)
def test_what_modprobe_would_not_take_as_options_of_nvidia_is_left_out(host: FakeHost, name: str, text: str) -> None:
    put(host, name, text)
    assert observe(host)["modprobe"] == []


def test_files_come_in_the_order_in_which_modprobe_reads_them(host: FakeHost) -> None:
    for name in ("b.conf", "Z.conf", "a.conf", "10-x.conf"):
        put(host, name, "options nvidia x=1\n")
    assert [Path(file["path"]).name for file in observe(host)["modprobe"]] == [
        "10-x.conf",
        "Z.conf",
        "a.conf",
        "b.conf",
    ]


def test_a_link_is_read_and_one_to_nowhere_or_to_dev_null_or_a_fifo_is_not(host: FakeHost) -> None:
    elsewhere = host.put("/etc/alternatives/nvidia.conf", "options nvidia x=1")
    folder = host.path("/etc/modprobe.d")
    (folder / "a.conf").symlink_to(elsewhere)
    (folder / "b.conf").symlink_to("nowhere")
    (folder / "c.conf").symlink_to("/dev/null")
    os.mkfifo(folder / "d.conf")
    (folder / "e.conf").mkdir()
    snapshot = observe(host)
    assert [file["path"] for file in snapshot["modprobe"]] == ["/etc/modprobe.d/a.conf"]
    assert why(snapshot, "modprobe") == ""


def test_without_a_folder_there_are_no_files(host: FakeHost) -> None:
    host.path("/etc/modprobe.d").rmdir()
    assert observe(host)["modprobe"] == []


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"options nvidia x=\xff\n", "not UTF-8 text"),
        (b"options nvidia x=1\n" + b"#" * (256 * 1024), "larger than 256 KiB"),
    ],
)
def test_a_file_that_cannot_be_told_whole_makes_the_layer_unknown(host: FakeHost, data: bytes, said: str) -> None:
    put(host, "a.conf", data)
    snapshot = observe(host)
    assert snapshot["modprobe"] is None
    assert why(snapshot, "modprobe") == f"/etc/modprobe.d/a.conf: {said}"


def test_another_modules_file_may_hold_what_it_likes(host: FakeHost) -> None:
    put(host, "a.conf", b"options other name=\xff\xfe\0\n")
    assert observe(host)["modprobe"] == []


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (
            'EnableMSI: 1\nRegistryDwords: "RmPVMRL=0x11;A=1"\nRegistryDwordsPerDevice: ""',
            {"registry_dwords": "RmPVMRL=0x11;A=1", "registry_dwords_per_device": ""},
        ),
        (
            "RegistryDwordsPerDevice: pci=0000:41:00.0;RmPVMRL=0x1\nRegistryDwords:",
            {"registry_dwords": "", "registry_dwords_per_device": "pci=0000:41:00.0;RmPVMRL=0x1"},
        ),
    ],
)
def test_what_the_module_was_given_is_told(host: FakeHost, text: str, fact: dict[str, str]) -> None:
    host.put("/proc/driver/nvidia/params", text)
    assert observe(host)["module"] == fact


def test_parameters_that_are_not_there_are_unknown(host: FakeHost) -> None:
    host.put("/proc/driver/nvidia/params", "EnableMSI: 1")
    assert observe(host)["module"] is None
    host.path("/proc/driver/nvidia/params").unlink()
    snapshot = observe(host)
    assert snapshot["module"] is None
    assert "ENOENT" in why(snapshot, "module")


# written


def test_a_new_file_is_roots_and_readable_by_all(host: FakeHost) -> None:
    step = make_modprobe_step()
    assert execute(host, step)["ok"] == {"note": None, "scheduler": None}
    file = host.path(CONF)
    assert file.read_text() == step["text"]
    assert (stat.S_IMODE(file.stat().st_mode), file.stat().st_uid) == (0o644, os.geteuid())
    assert observe(host)["modprobe"] == [{"path": CONF, "text": step["text"]}]
    assert names(host) == ["vgpumgr.conf"]


def test_a_file_that_is_replaced_keeps_its_mode_and_owner(host: FakeHost) -> None:
    file = put(host, "vgpumgr.conf", OLD)
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 0, 7)
    before = file.stat()
    assert "ok" in execute(host, make_modprobe_step(expect=OLD))
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert file.read_text() != OLD


def test_text_null_takes_the_file_away(host: FakeHost) -> None:
    put(host, "vgpumgr.conf", OLD)
    assert "ok" in execute(host, make_modprobe_step(text=None, expect=OLD))
    assert names(host) == []


def test_an_empty_text_is_an_empty_file_and_not_none(host: FakeHost) -> None:
    assert "ok" in execute(host, make_modprobe_step(text=""))
    assert names(host) == ["vgpumgr.conf"]
    assert execute(host, make_modprobe_step(expect=None))["err"]["kind"] == "Changed"


@pytest.mark.parametrize(("there", "expect"), [(OLD, None), (None, OLD), (OLD + "\n", OLD)])
def test_another_text_than_expected_is_left_alone(host: FakeHost, there: str | None, expect: str | None) -> None:
    if there is not None:
        put(host, "vgpumgr.conf", there)
    before = host.tree()
    assert execute(host, make_modprobe_step(expect=expect))["err"]["kind"] == "Changed"
    assert host.tree() == before


def test_an_edit_made_meanwhile_is_left_alone(host: FakeHost) -> None:
    put(host, "vgpumgr.conf", OLD)

    def edit(point: str) -> None:
        if point == "aside":
            put(host, "vgpumgr.conf", "# by hand\n")

    assert execute(host, make_modprobe_step(expect=OLD), at=edit)["err"]["kind"] == "Changed"
    assert host.path(CONF).read_text() == "# by hand\n"
    assert names(host) == ["vgpumgr.conf"]


def test_a_symbolic_link_is_neither_followed_nor_replaced(host: FakeHost) -> None:
    victim = host.put("/etc/victim", "mine")
    host.path(CONF).symlink_to(victim)
    before = host.tree()
    error = execute(host, make_modprobe_step())["err"]
    assert (error["kind"], error["path"], error["errno"]) == ("SysfsRefused", CONF, "ELOOP")
    assert host.tree() == before


def test_a_link_planted_at_the_name_beside_it_is_not_written_through(host: FakeHost) -> None:
    victim = host.put("/etc/victim", "mine")
    host.path(CONF + ".vgpumgr-new").symlink_to(victim)
    assert "ok" in execute(host, make_modprobe_step())
    assert victim.read_text() == "mine\n"
    assert not host.path(CONF).is_symlink()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_left_alone(host: FakeHost, make: Callable[[Path], None]) -> None:
    make(host.path(CONF))
    assert execute(host, make_modprobe_step())["err"]["kind"] == "Changed"
    assert names(host) == ["vgpumgr.conf"]


def test_without_the_folder_the_refusal_names_the_file_and_the_errno(host: FakeHost) -> None:
    host.path("/etc/modprobe.d").rmdir()
    error = execute(host, make_modprobe_step())["err"]
    assert (error["kind"], error["path"], error["errno"]) == ("SysfsRefused", CONF, "ENOENT")


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "é" * (128 * 1024 + 1), 7, ["x"], {}])
def test_a_text_that_is_no_files_is_a_bad_request(text: object) -> None:
    with pytest.raises(Refusal) as caught:
        parse_step(make_modprobe_step(text=text))
    assert caught.value.kind == "BadRequest"


def test_a_bad_request_writes_nothing(host: FakeHost) -> None:
    before = host.tree()
    assert execute(host, make_modprobe_step(path="/etc/modprobe.d/../passwd"))["err"]["kind"] == "BadRequest"
    assert host.tree() == before
