"""export textfile and export prometheus: the real program on a real store, asked by real clients."""

from __future__ import annotations

import os
import signal
import socket
import stat
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.unit.metrics import made_up, reading
from tests.unit.metrics.reading import value
from tests.unit.metrics.serving import Site

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.usage.readings import Round

KEY = {"host": "kvm01", "gpu": made_up.GPU, "vm": "vm01", "slot": "vgpu0"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(folder=tmp_path)


def now_round(*numbers: int, at: float | None = None) -> Round:
    return made_up.one_round(made_up.gpu(*map(made_up.vgpu, numbers)), at=time.time() if at is None else at)


@pytest.fixture
def kept(site: Site) -> Site:
    """A site whose collector has just read a host with vm01 and vm02."""
    site.add([now_round(1, 2)])
    return site


def test_the_textfile_is_whole_readable_by_others_and_without_timestamps(kept: Site) -> None:
    """And again, over what is there: nothing else is left in the folder."""
    folder = kept.folder / "textfile"
    folder.mkdir()
    file = folder / "vgpumgr.prom"
    for _ in range(2):
        done = kept.run("export", "textfile", str(file))
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert list(folder.iterdir()) == [file]
    assert value(reading.parse(file.read_bytes()), "vgpu_framebuffer_used_bytes", **KEY) == 20 * 2**30


def test_a_dash_is_standard_output(kept: Site) -> None:
    done = kept.run("export", "textfile", "-")
    assert value(reading.parse(done.stdout.encode()), "vgpu_sm_utilization_ratio", **KEY) == 0.31


def test_before_anything_is_collected_the_page_has_no_hosts(site: Site) -> None:
    """And no store is made by looking."""
    done = site.run("export", "textfile", "-")
    names = {line.name for line in reading.parse(done.stdout.encode())}
    assert (done.returncode, names) == (0, {"vgpumgr_build_info"})
    assert list(site.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [("vgpumgr.txt", 2, "does not end in .prom"), ("missing/vgpumgr.prom", 1, "No such file or directory")],
)
def test_a_file_that_node_exporter_would_not_read_is_refused(kept: Site, name: str, code: int, said: str) -> None:
    done = kept.run("export", "textfile", str(kept.folder / name))
    assert done.returncode == code
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert not (kept.folder / name).exists()


def test_check_writes_no_file_and_opens_no_socket(kept: Site) -> None:
    assert kept.run("export", "textfile", str(kept.folder / "a.prom"), "--check").returncode == 3
    assert kept.run("export", "prometheus", "--socket", str(kept.folder / "s" / "a.sock"), "--check").returncode == 3
    assert {path.name for path in kept.folder.iterdir() if not path.name.startswith("samples")} == set()


def test_three_intervals_of_the_collector_are_the_limit_of_age(site: Site) -> None:
    """Of cron's, which has none, a quarter of an hour; and --max-age says otherwise."""

    def up(*options: str) -> float | None:
        return value(
            reading.parse(site.run("export", "textfile", "-", *options).stdout.encode()), "host_up", host="kvm01"
        )

    site.add([now_round(1, at=time.time() - 200)], every_s=100)
    assert (up(), up("--max-age", "1m"), up("--max-age", "190s")) == (1, 0, 0)
    site.add([now_round(1, at=time.time() - 120)], every_s=30)
    assert (up(), up("--max-age", "5m")) == (0, 1)
    site.add([now_round(1, at=time.time() - 12)], every_s=1)
    assert up() == 1, "a host that hangs holds up the others' rounds for some seconds"
    site.add([now_round(1, at=time.time() - 600)], every_s=None)
    assert up() == 1
    site.add([now_round(1, at=time.time() - 1000)], every_s=None)
    assert up() == 0


@pytest.fixture(params=["socket", "IPv4", "IPv6"])
def place(request: pytest.FixtureRequest, site: Site) -> tuple[str, str]:
    return {
        "socket": ("--socket", str(site.folder / "run" / "metrics.sock")),
        "IPv4": ("--listen", "127.0.0.1:0"),
        "IPv6": ("--listen", "[::1]:0"),
    }[request.param]


def test_the_page_is_served_and_always_what_is_true_now(kept: Site, place: tuple[str, str]) -> None:
    """A VM that goes is gone from the next scrape; nothing else than the page and an index is there."""
    with kept.serving(*place) as server:
        status, body, content_type = server.ask()
        assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert value(reading.parse(body), "vgpu_sm_utilization_ratio", **KEY) == 0.31
        kept.add([now_round(2)])
        time.sleep(1.1)  # a page is at most a second old
        after = reading.parse(server.ask()[1])
        assert value(after, "vgpu_info", vm="vm01") is None
        assert value(after, "vgpu_info", vm="vm02") == 1
        assert server.ask("/")[0] == 200
        assert b'href="/metrics"' in server.ask("/")[1]
        assert [server.ask(path)[0] for path in ("/metrics/", "/etc/passwd", "/../store.db")] == [404, 404, 404]
        assert server.ask("/metrics?name[]=up")[0] == 200
        assert server.ask(method="HEAD")[:2] == (200, b"")
        assert server.ask(method="POST")[0] == 501
        assert server.end() == 143
    assert kept.told == ""


def test_the_socket_is_for_owner_and_group_in_a_folder_likewise_and_goes_at_the_end(kept: Site) -> None:
    """Where the folder is missing. Ctrl-C ends it as well as SIGTERM does."""
    path = kept.folder / "run" / "metrics.sock"
    with kept.serving("--socket", str(path)) as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
        assert server.end(signal.SIGINT) == 130
    assert not path.exists()


def test_a_socket_that_a_killed_server_left_is_replaced_and_one_that_lives_is_not(kept: Site) -> None:
    path = kept.folder / "run" / "metrics.sock"
    with kept.serving("--socket", str(path)) as server:
        server.end(signal.SIGKILL)
    assert path.exists()
    with kept.serving("--socket", str(path)) as server:
        second = kept.run("export", "prometheus", "--socket", str(path))
        assert second.returncode == 1
        assert f"another process already listens on {path}" in second.stderr
        assert server.ask()[0] == 200


def test_what_is_no_socket_stays(kept: Site) -> None:
    path = kept.folder / "notes"
    path.write_text("mine")
    done = kept.run("export", "prometheus", "--socket", str(path))
    assert (done.returncode, path.read_text()) == (1, "mine")
    assert "is not a socket and is left alone" in done.stderr


def test_too_long_a_path_for_a_socket_is_an_error_of_one_line(kept: Site) -> None:
    done = kept.run("export", "prometheus", "--socket", str(kept.folder / ("x" * 120)))
    assert done.returncode == 1
    assert "AF_UNIX path too long" in done.stderr


def test_a_socket_that_somebody_else_put_there_meanwhile_stays(kept: Site) -> None:
    path = kept.folder / "run" / "metrics.sock"
    with kept.serving("--socket", str(path)):
        path.unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(os.fspath(path))
    assert path.exists()


def test_a_port_that_is_taken_is_named(kept: Site) -> None:
    with kept.serving("--listen", "127.0.0.1:0") as server:
        port = server.address[1]
        done = kept.run("export", "prometheus", "--listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in done.stderr


@pytest.mark.parametrize(
    "text", [":9836", "9836", "localhost:9836", "::1:9836", "127.0.0.1", "127.0.0.1:70000", "[127.0.0.1]:1"]
)
def test_an_address_is_asked_for_in_full(kept: Site, text: str) -> None:
    done = kept.run("export", "prometheus", "--listen", text)
    assert done.returncode == 2
    assert "hint: write ADDRESS:PORT" in done.stderr


def test_a_broken_store_is_503_and_one_line_until_it_is_well_again(kept: Site) -> None:
    """However many scrapes meet it."""
    file = kept.store.path
    with kept.serving("--listen", "127.0.0.1:0") as server:
        kept_bytes = file.read_bytes()
        for beside in file.parent.glob(f"{file.name}-*"):
            beside.unlink()
        file.write_bytes(b"no database at all " * 100)
        statuses = [server.ask() for _ in range(3)]
        assert {status for status, _, _ in statuses} == {503}
        assert str(file).encode() in statuses[0][1]
        file.write_bytes(kept_bytes)
        assert server.ask()[0] == 200
    assert kept.told.count("error: ") == 1
    assert str(file) in kept.told


def test_slow_clients_hold_up_nobody(kept: Site) -> None:
    """Some that say nothing, one that reads nothing; and a crowd that asks at once is answered."""
    with kept.serving("--listen", "127.0.0.1:0") as server:
        silent = [server.dial() for _ in range(20)]
        silent[0].sendall(b"GET /metrics HTT")
        answers: list[int] = []
        threads = [threading.Thread(target=lambda: answers.append(server.ask()[0])) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [200] * 20
        for client in silent:
            client.close()
        assert server.end() == 143
