"""`vgpumgr install cron|timer`: what is printed, written, left alone, and what systemd itself says about it."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vgpumgr.cli.main import run
from vgpumgr.cli.params.durations import Duration

ODD = 'in ven\'tory 100% $HOME "x"'
KINDS = ("cron", "timer")


@pytest.fixture(autouse=True)
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an odd name; installing reads nothing in it."""
    folder = tmp_path / ODD
    folder.mkdir()
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(folder))
    monkeypatch.delenv("VGPUMGR_STORE", raising=False)
    return folder


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """Where jobs are written in place of /etc."""
    folder = tmp_path / "etc"
    folder.mkdir()
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


def command_of(crontab: str) -> list[str]:
    """The words of the last line's command, as cron and a shell read them, without the wait before it."""
    line = crontab.splitlines()[-1].split(None, 6)[6].replace(r"\%", "%")
    return shlex.split(line.partition("; exec ")[2] or line)


def test_printing_writes_nothing_and_is_what_would_be_written(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So `vgpumgr install cron > /etc/cron.d/vgpumgr` is the same as --write."""
    assert run(["install", "cron", "--dir", str(jobs)]) == 0
    printed = capsys.readouterr().out
    assert contents(jobs) == {}
    assert run(["install", "cron", "--dir", str(jobs), "--write"]) == 0
    assert contents(jobs) == {"vgpumgr": printed}


@pytest.mark.parametrize("kind", [*KINDS, "collect"])
def test_written_once_the_same_again_is_no_change(kind: str, jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--check says so before (3) and after (0), and changes nothing."""
    command = ["install", kind, "--dir", str(jobs), "--write"]
    assert run([*command, "--check"]) == 3
    assert contents(jobs) == {}
    assert run(command) == 0
    before = contents(jobs)
    stamps = {file: file.stat().st_mtime_ns for file in jobs.iterdir()}
    assert {stat.S_IMODE(file.stat().st_mode) for file in stamps} == {0o644}
    assert run([*command, "--check"]) == 0
    assert run(command) == 0
    assert contents(jobs) == before
    assert {file: file.stat().st_mtime_ns for file in jobs.iterdir()} == stamps
    capsys.readouterr()


@pytest.mark.parametrize("kind", KINDS)
def test_other_settings_replace_what_we_wrote_without_a_question(
    kind: str, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["install", kind, "--dir", str(jobs), "--write"]
    assert run(command) == 0
    assert run([*command, "--at", "03:15", "--diff"]) == 0
    assert ("15 3 * * * root" if kind == "cron" else "OnCalendar=*-*-* 03:15:00") in "".join(contents(jobs).values())
    assert any(line.startswith("-") and "2" in line for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_edited_by_hand_is_shown_and_kept_without_a_yes(
    kind: str, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["install", kind, "--dir", str(jobs), "--write"]
    assert run(command) == 0
    for file in jobs.iterdir():
        file.write_text(file.read_text() + "# mine\n")
    edited = contents(jobs)
    capsys.readouterr()
    assert run([*command, "--at", "03:15"]) == 2
    told = capsys.readouterr()
    assert "-# mine" in told.out.splitlines()
    assert "--yes" in told.err
    assert contents(jobs) == edited
    assert run([*command, "--at", "03:15", "--yes"]) == 0
    assert "# mine" not in "".join(contents(jobs).values())


def test_the_job_names_this_program_and_absolute_paths(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An odd name, given relative to where one stands, is one word of the command."""
    monkeypatch.chdir(tmp_path)
    argv = ["-i", ODD, "install", "cron", "--user", "gpu", "--timeout", "90", "--log-format", "json"]
    assert run(argv) == 0
    text = capsys.readouterr().out
    program, *rest = command_of(text)
    assert os.access(program, os.X_OK)
    assert rest == [
        *("reconcile", "--yes", "--quiet", "--inventory", str(inventory), "--log-format", "json", "--timeout", "90")
    ]
    assert "\n30 2 * * * gpu sleep " in text
    assert run([*argv, "--mailto", "ops@example.org"]) == 0
    mailed = capsys.readouterr().out
    assert "MAILTO=ops@example.org\n30 2 * * * gpu sleep " in mailed
    assert " ops@example.org " in mailed.splitlines()[-1]


def test_the_job_s_store_and_leave_to_ask_ansible_are_those_that_are_set_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The words begin with env, which cron and systemd both start, and really run."""
    monkeypatch.setenv("VGPUMGR_STORE", str(tmp_path / "a b" / "store.sqlite"))
    monkeypatch.setenv("VGPUMGR_ANSIBLE_INVENTORY", "30m")
    assert run(["install", "cron", "--jitter", "0"]) == 0
    words = command_of(capsys.readouterr().out)
    assert words[:3] == ["/usr/bin/env", f"VGPUMGR_STORE={tmp_path}/a b/store.sqlite", "VGPUMGR_ANSIBLE_INVENTORY=30m"]
    at = words.index("reconcile")
    done = subprocess.run([*words[:at], "history"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"no journal yet ({tmp_path}/a b/store.sqlite)\n"


def test_systemd_accepts_the_units(jobs: Path) -> None:
    """`systemd-analyze verify` has nothing to say. The collector reads as often as was said, and tells what it has to tell; it is
    tried again unless it was asked for wrongly (2)."""
    assert run(["install", "timer", "--dir", str(jobs), "--write", "--user", "root"]) == 0
    assert run(["install", "collect", "--dir", str(jobs), "--write", "--every", "30s", "-q"]) == 0
    assert run(["install", "export", "--dir", str(jobs), "--write", "-q"]) == 0
    assert run(["install", "web", "--dir", str(jobs), "--write", "-q", "--socket-group", "adm"]) == 0
    names = [
        "vgpumgr-collect.service",
        "vgpumgr-export.service",
        "vgpumgr-reconcile.service",
        "vgpumgr-reconcile.timer",
        "vgpumgr-web.service",
        "vgpumgr-web.socket",
    ]
    assert sorted(contents(jobs)) == names
    settings = dict(line.split("=", 1) for line in contents(jobs)[names[0]].splitlines() if "=" in line)
    assert " collect --every 30s --inventory " in settings["ExecStart"]
    assert (settings["Restart"], settings["RestartPreventExitStatus"]) == ("on-failure", "2")
    done = subprocess.run(
        ["systemd-analyze", "verify", *(jobs / name for name in names)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "vgpumgr" in line]) == (0, [])


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_the_units_are_confined(jobs: Path, user: str) -> None:
    """systemd's own score is below 4 for each (10 is none at all; found: breaker F6), but for a machine that is a hypervisor itself."""
    for unit in ("timer", "collect", "export", "web"):
        assert run(["install", unit, "--dir", str(jobs), "--write", "-q", "--user", user]) == 0
        (name,) = (one for one in contents(jobs) if one.endswith(".service"))
        told = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", jobs / name],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        ).stdout
        score = re.search(r"Overall exposure level for \S+: ([0-9.]+)", told)
        assert score is not None, told
        assert float(score[1]) < 4, told
        for file in contents(jobs):
            (jobs / file).unlink()


@pytest.mark.parametrize("group", ["root", "gpu-admins"])
def test_the_group_of_the_socket_may_enter_its_folder_and_nobody_else(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["install", "web", "--socket-group", group]) == 0
    service, socket = capsys.readouterr().out.split("# /etc/systemd/system/vgpumgr-web.socket\n")
    unit = dict(line.split("=", 1) for line in socket.splitlines() if "=" in line and not line.startswith("#"))
    folder, _, _ = unit["ListenStream"].rpartition("/")
    assert unit["ExecStartPre"].split()[1:] == ["-d", "-m", "0750", "-g", group, folder]
    assert (unit["SocketGroup"], unit["SocketMode"], unit["DirectoryMode"]) == (group, "0660", "0750")
    assert "--socket" not in service, "it takes systemd's"
    assert run(["install", "web", "--socket-group", "a b"]) == 2


@pytest.mark.parametrize("every", ["1000001s", "9999999d", "1.5s"])
def test_the_collector_is_told_a_time_that_it_takes(every: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install", "collect", "--every", every]) == 0
    found = re.search(r" --every (\S+) ", capsys.readouterr().out)
    assert found is not None
    assert Duration()(found[1]) == Duration()(every)


def test_mail_is_turned_off_by_an_empty_address(capsys: pytest.CaptureFixture[str]) -> None:
    """Left out, cron would mail to the job's user."""
    assert run(["install", "cron", "--mailto", ""]) == 0
    assert '\nMAILTO=""\n' in capsys.readouterr().out


def test_busy_is_tried_again_and_no_other_code_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the codes of docs/exit-codes.md, 6 alone may come out better, and none but 0 is a success."""
    assert run(["install", "timer"]) == 0
    unit = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines() if "=" in line)
    assert unit["Restart"] == "on-failure"
    assert unit["RestartPreventExitStatus"].split() == ["1", "2", "3", "4", "5", "130", "141"]
    assert unit["SuccessExitStatus"] == "143"


def test_as_json_the_files_and_their_state_are_listed(jobs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["install", "timer", "--dir", str(jobs), "-o", "json"]
    assert run([*argv, "--write", "--check"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["changed"], found["outcomes"]) == ("vgpumgr.install/1", True, ["would_change"])
    assert [row["state"] for row in found["files"]] == ["absent", "absent"]
    assert run([*argv, "--write"]) == 0
    assert json.loads(capsys.readouterr().out)["outcomes"] == ["done"]
    assert run(argv) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)["files"]] == ["same", "same"]


@pytest.mark.parametrize(
    "argv",
    [["--at", "25:00"], ["--user", "a b"], ["--mailto", "x y"], ["--jitter", "-1"], ["-i", "nowhere"]],
    ids=" ".join,
)
def test_a_mistake_is_a_usage_error(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install", "cron", *argv]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("check", [(), ("--check",)])
def test_a_folder_that_is_not_there_is_told(
    check: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check says beforehand what --write would end with."""
    assert run(["install", "cron", "--write", "--dir", str(tmp_path / "cron.d"), *check]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"there is no directory {tmp_path}/cron.d" in printed.err


@pytest.mark.parametrize("kind", [*KINDS, "collect", "export", "web"])
@pytest.mark.parametrize("check", [(), ("--check",)])
def test_no_job_is_installed_for_a_lab(
    kind: str, check: tuple[str, ...], inventory: Path, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The shell of the tour has the lab's variables. Printing the job is no harm."""
    inventory.with_name("lab.json").write_text("{}")
    assert run(["install", kind, "--dir", str(jobs), "--write", *check]) == 2
    assert "is a lab's inventory" in capsys.readouterr().err
    assert contents(jobs) == {}
    assert run(["install", kind, "--dir", str(jobs)]) == 0
    capsys.readouterr()


@pytest.mark.parametrize("kind", KINDS)
def test_a_directory_of_ones_own_is_not_said_to_be_read(
    kind: str, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["install", kind, "--dir", str(jobs), "--write"]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("next: put ")
    assert ("/etc/cron.d" if kind == "cron" else "/etc/systemd/system") in told


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root, to become another")
def test_without_root_it_says_that_it_takes_root(jobs: Path) -> None:
    """As another user, in a folder that is root's; nothing is left behind."""
    jobs.chmod(0o755)
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from vgpumgr.cli.commands import nightly; from vgpumgr.controller import install_files; from vgpumgr import errors\n"
        "os.setuid(65534)\n"
        "try: install_files.put(install_files.InstallFile(path=Path(sys.argv[1]), text='x', current=None))\n"
        "except errors.UsageError as error: print(error.message)\n"
    )
    target = Path("/etc/cron.d/vgpumgr-test") if Path("/etc/cron.d").is_dir() else Path("/etc/vgpumgr-test")
    done = subprocess.run(
        [sys.executable, "-c", program, target],
        env={"PYTHONPATH": str(Path(__file__).resolve().parents[4])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"{target} cannot be written: only root may write it\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_only_plans_changes_nothing_and_replaces_the_other(
    kind: str, jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["install", kind, "--dir", str(jobs), "--write"]
    assert run(argv) == 0
    names = set(contents(jobs))
    assert run([*argv, "--plan-only"]) == 0
    written = "".join(contents(jobs).values())
    assert set(contents(jobs)) == names
    assert " plan --record --quiet " in written
    assert "reconcile --yes" not in written
    assert run([*argv, "--plan-only", "--check"]) == 0
    capsys.readouterr()


def test_removed_is_exactly_what_was_installed_and_the_second_time_nothing(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the link that `systemctl enable` makes; --check says so before (3) and after (0)."""
    others = {"somebody-else": "30 2 * * * root true\n", "vgpumgr-reconcile.service.d": ""}
    for name, text in others.items():
        (jobs / name).write_text(text)
    for kind in (*KINDS, "collect", "web"):
        assert run(["install", kind, "--dir", str(jobs), "--write"]) == 0
    for unit in ("vgpumgr-reconcile.timer", "other.timer", "vgpumgr-web.socket"):
        wants = jobs / f"{unit.partition('.')[2]}s.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / unit).symlink_to(jobs / unit)
    argv = ["install", "remove", "--dir", str(jobs)]
    before = sorted(jobs.rglob("*"))
    assert run([*argv, "--check"]) == 3
    assert sorted(jobs.rglob("*")) == before
    assert run([*argv, "collect"]) == 0
    assert not (jobs / "vgpumgr-collect.service").exists()
    assert (jobs / "vgpumgr").exists()
    capsys.readouterr()
    assert run(argv) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "next: systemctl daemon-reload && systemctl stop vgpumgr-reconcile.timer vgpumgr-web.socket"
    )
    assert sorted(path.name for path in jobs.rglob("*")) == sorted(
        [*others, "other.timer", "sockets.target.wants", "timers.target.wants"]
    )
    assert run([*argv, "--check"]) == 0
    capsys.readouterr()
    assert run([*argv, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["changed"], {row["state"] for row in found["files"]}) == (False, {"absent"})


def test_what_was_edited_is_removed_with_a_yes_only_and_what_is_not_ours_never(
    jobs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["install", "remove", "--dir", str(jobs)]
    assert run(["install", "timer", "--dir", str(jobs), "--write"]) == 0
    service = jobs / "vgpumgr-reconcile.service"
    service.write_text(service.read_text() + "Nice=9\n")
    (jobs / "vgpumgr").write_text("# a job of somebody's own\n")
    before = contents(jobs)
    assert run(argv) == 2
    assert contents(jobs) == before
    assert "was edited by hand" in capsys.readouterr().err
    assert run([*argv, "--yes"]) == 0
    assert contents(jobs) == {"vgpumgr": "# a job of somebody's own\n"}
    assert "was not written by vgpumgr, so it stays" in capsys.readouterr().err
