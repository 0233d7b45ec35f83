"""export textfile and export prometheus: on a real store; what is served is asked of the real program by real clients."""

from __future__ import annotations

import os
import signal
import socket
import stat
import time
from typing import TYPE_CHECKING

import pytest

from tests.controllers import wait_until
from tests.unit.metrics import made_up, reading
from tests.unit.metrics.reading import value
from tests.unit.metrics.serving import Site
from vgpumgr.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vgpumgr.core.usage.readings import Round

    Run = Callable[..., tuple[int, str, str]]
    Up = dict[tuple[str, ...], int]  # options: whether the host is up then

KEY = {"host": "kvm01", "gpu": made_up.GPU, "vm": "vm01", "slot": "vgpu0"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("VGPUMGR_STORE", str(tmp_path / "store.db"))
    return Site(folder=tmp_path)


@pytest.fixture
def run(site: Site, capsys: pytest.CaptureFixture[str]) -> Run:
    """`vgpumgr export ARGUMENTS`: its code, and what it printed."""

    def export(*arguments: object) -> tuple[int, str, str]:
        code = main.run(["export", *map(str, arguments)])
        return code, *capsys.readouterr()

    return export


def now_round(*numbers: int, at: float | None = None) -> Round:
    return made_up.one_round(made_up.gpu(*map(made_up.vgpu, numbers)), at=time.time() if at is None else at)


@pytest.fixture
def kept(site: Site) -> Site:
    """A site whose collector has just read a host with vm01 and vm02."""
    site.add([now_round(1, 2)])
    return site


def test_the_textfile_is_whole_readable_by_others_and_without_timestamps(kept: Site, run: Run) -> None:
    """And again, over what is there: nothing else is left in the folder. A dash is standard output."""
    folder = kept.folder / "textfile"
    folder.mkdir()
    file = folder / "vgpumgr.prom"
    for _ in range(2):
        assert run("textfile", file) == (0, "", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(folder.iterdir()) == [file]
    assert value(reading.parse(file.read_bytes()), "vgpu_framebuffer_used_bytes", **KEY) == 20 * 2**30
    assert value(reading.parse(run("textfile", "-")[1].encode()), "vgpu_sm_utilization_ratio", **KEY) == 0.31


def test_before_anything_is_collected_the_page_has_no_hosts(site: Site, run: Run) -> None:
    """And no store is made by looking."""
    code, out, _ = run("textfile", "-")
    assert (code, {line.name for line in reading.parse(out.encode())}) == (0, {"vgpumgr_build_info"})
    assert list(site.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("vgpumgr.txt", 2, "does not end in .prom"), ("missing/vgpumgr.prom", 1, "No such file or directory")],
)
def test_a_file_that_node_exporter_would_not_read_is_refused(
    kept: Site, run: Run, name: str, code: int, said: str
) -> None:
    ended, _, err = run("textfile", kept.folder / name)
    assert (ended, said in err, "hint: " in err) == (code, True, True)
    assert not (kept.folder / name).exists()


def test_check_writes_no_file_and_opens_no_socket(kept: Site, run: Run) -> None:
    assert run("textfile", kept.folder / "a.prom", "--check")[0] == 3
    assert run("prometheus", "--socket", kept.folder / "s" / "a.sock", "--check")[0] == 3
    assert {path.name for path in kept.folder.iterdir() if not path.name.startswith("samples")} == set()


@pytest.mark.parametrize(
    ("every_s", "age_s", "up"),
    [
        (100, 200, {(): 1, ("--max-age", "1m"): 0, ("--max-age", "190s"): 0}),
        (30, 120, {(): 0, ("--max-age", "5m"): 1}),
        (1, 12, {(): 1}),  # a host that hangs holds up the others' rounds for some seconds
        (None, 600, {(): 1}),
        (None, 1000, {(): 0}),
    ],
)
def test_three_intervals_of_the_collector_are_the_limit_of_age(
    site: Site, run: Run, monkeypatch: pytest.MonkeyPatch, *, every_s: float | None, age_s: float, up: Up
) -> None:
    """Of cron's, which has none, a quarter of an hour; and --max-age says otherwise."""
    monkeypatch.setattr(time, "time", lambda: made_up.NOW)
    site.add([now_round(1, at=made_up.NOW - age_s)], every_s=every_s)
    for options, is_up in up.items():
        page = reading.parse(run("textfile", "-", *options)[1].encode())
        assert value(page, "host_up", host="kvm01") == is_up, options


def test_the_page_is_served_and_always_what_is_true_now(kept: Site, run: Run) -> None:
    """A VM that goes is gone from a next scrape; nothing else than the page and an index is there."""
    with kept.serving("--listen", "127.0.0.1:0") as server:
        status, body, content_type = server.ask()
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert value(reading.parse(body), "vgpu_sm_utilization_ratio", **KEY) == 0.31
        kept.add([now_round(2)])
        wait_until(  # a page is at most a second old
            lambda: value(reading.parse(server.ask()[1]), "vgpu_info", vm="vm01") is None, "the page without vm01"
        )
        assert value(reading.parse(server.ask()[1]), "vgpu_info", vm="vm02") == 1
        assert server.ask("/")[0] == 200
        assert b'href="/metrics"' in server.ask("/")[1]
        assert [server.ask(path)[0] for path in ("/metrics/", "/etc/passwd", "/../store.db")] == [404, 404, 404]
        assert server.ask("/metrics?name[]=up")[0] == 200
        assert server.ask(method="HEAD")[:2] == (200, b"")
        assert server.ask(method="POST")[0] == 501
        port = server.address[1]
        code, _, err = run("prometheus", "--listen", f"127.0.0.1:{port}")
        assert (code, f"cannot listen on 127.0.0.1 port {port}: Address already in use" in err) == (1, True)
        assert server.end() == 143
    assert kept.told == ""


def test_the_socket_is_for_owner_and_group_in_a_folder_likewise_and_goes_at_the_end(kept: Site, run: Run) -> None:
    """Where the folder is missing. One that a killed server left is replaced, one that lives is not. Ctrl-C ends it as SIGTERM does."""
    path = kept.folder / "run" / "metrics.sock"
    with kept.serving("--socket", str(path)) as server:
        server.end(signal.SIGKILL)
    assert path.exists()
    with kept.serving("--socket", str(path)) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
        code, _, err = run("prometheus", "--socket", path)
        assert (code, f"another process already listens on {path}" in err) == (1, True)
        assert server.ask()[0] == 200
        assert server.end(signal.SIGINT) == 130
    assert not path.exists()


def test_what_is_no_socket_stays(kept: Site, run: Run) -> None:
    path = kept.folder / "notes"
    path.write_text("mine")
    code, _, err = run("prometheus", "--socket", path)
    assert (code, path.read_text()) == (1, "mine")
    assert "is not a socket and is left alone" in err


def test_too_long_a_path_for_a_socket_is_an_error_of_one_line(kept: Site, run: Run) -> None:
    code, _, err = run("prometheus", "--socket", kept.folder / ("x" * 120))
    assert (code, "AF_UNIX path too long" in err) == (1, True)


def test_a_socket_that_somebody_else_put_there_meanwhile_stays(kept: Site) -> None:
    path = kept.folder / "run" / "metrics.sock"
    with kept.serving("--socket", str(path)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(os.fspath(path))
    assert path.exists()


@pytest.mark.parametrize(
    "text", [":9836", "9836", "localhost:9836", "::1:9836", "127.0.0.1", "127.0.0.1:70000", "[127.0.0.1]:1"]
)
def test_an_address_is_asked_for_in_full(run: Run, text: str) -> None:
    code, _, err = run("prometheus", "--listen", text)
    assert (code, "hint: write ADDRESS:PORT" in err) == (2, True)


def test_a_broken_store_is_503_and_one_line_for_each_error_until_it_is_well_again(kept: Site) -> None:
    """However many scrapes meet it, and though two errors take turns; here over IPv6."""
    file = kept.store.path
    with kept.serving("--listen", "[::1]:0") as server:
        kept_bytes = file.read_bytes()
        for beside in file.parent.glob(f"{file.name}-*"):
            beside.unlink()
        file.write_bytes(b"no database at all " * 100)
        statuses = [server.ask() for _ in range(3)]
        assert str(file).encode() in statuses[0][1]
        aside = file.rename(file.with_suffix(".aside"))
        file.mkdir()
        statuses.append(server.ask())
        file.rmdir()
        aside.rename(file)
        statuses.append(server.ask())
        assert [status for status, _, _ in statuses] == [503] * 5
        assert len({body for _, body, _ in statuses}) == 2
        file.write_bytes(kept_bytes)
        assert server.ask()[0] == 200
    assert kept.told.count("error: ") == 2
    assert str(file) in kept.told
