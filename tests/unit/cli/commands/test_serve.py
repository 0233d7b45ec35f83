"""The program `serve` on its socket: who may connect, how it ends, what it leaves, and what it needs."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.unit.metrics.serving import PROGRAM, Site
from vgpumgr import web
from vgpumgr.cli import main
from vgpumgr.cli.rows import site as pages
from vgpumgr.web import app, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[Site]:
    """A site of one host, on whose port nobody ever says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = {"ansible_host": "127.0.0.1", "ansible_port": listener.getsockname()[1]}
        (tmp_path / "hosts.yml").write_text(json.dumps({"hypervisors": {"hosts": {"kvm01": host}}}), encoding="utf-8")
        yield Site(folder=tmp_path)


@contextmanager
def serving(site: Site, path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [*PROGRAM, "serve", "-i", str(site.folder / "hosts.yml"), "--socket", str(path)],
        env=site.env,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert line == f"serving the unix socket {path}\n", line + process.stderr.read()
        yield process
    finally:
        process.kill()
        process.wait(30)
        process.stderr.close()


def status(path: Path, target: str) -> int | None:
    """The status of an answer; None: the server went away."""
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(60)
    try:
        connection.sock.connect(str(path))
        connection.request("GET", target)
        return connection.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def test_a_socket_of_a_killed_server_is_replaced_and_a_signal_ends_one_whose_host_hangs(hanging: Site) -> None:
    path = hanging.folder / "new" / "web.sock"
    with serving(hanging, path) as killed:
        assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, path)] == [0o750, 0o660]
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait(30)
    assert path.is_socket()
    with serving(hanging, path) as process:
        assert status(path, "/api/v1/history") == 200
        answers: list[int | None] = []
        viewer = threading.Thread(target=lambda: answers.append(status(path, "/")))
        viewer.start()
        with socket.socket(socket.AF_UNIX) as other:  # is answered while that one waits for the host
            other.connect(str(path))
            assert status(path, "/static/page.css") == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        viewer.join(30)
    assert answers in ([None], [500])
    assert not path.exists()


_PASSES = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execvp(sys.argv[3], sys.argv[3:])
"""


def passed(site: Site, listener: socket.socket, *more: str, count: int = 1) -> subprocess.Popen[str]:
    """The server, started as systemd does it for the first visitor of a socket."""
    command = [*PROGRAM, "serve", "-i", str(site.folder / "hosts.yml"), *more]
    return subprocess.Popen(
        [sys.executable, "-c", _PASSES, str(listener.fileno()), str(count), *command],
        env={key: value for key, value in site.env.items() if key != "XDG_RUNTIME_DIR"},
        pass_fds=[listener.fileno()],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_socket_of_systemd_is_answered_and_left_for_the_next_start(hanging: Site) -> None:
    path = hanging.folder / "web.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        for _ in range(2):
            process = passed(hanging, listener)
            assert status(path, "/static/page.css") == 200
            process.terminate()
            _, told = process.communicate(timeout=60)
            assert (process.returncode, f"serving the unix socket {path}\n" in told) == (0, True), told
            assert path.is_socket()


@pytest.mark.parametrize(
    ("family", "more", "count", "ends"),
    [
        (socket.AF_INET, (), 1, (1, "something else than one unix socket that listens")),
        (socket.AF_UNIX, (), 2, (1, "something else than one unix socket that listens")),
        (socket.AF_UNIX, ("--socket", "/nowhere/web.sock"), 1, (2, "--socket cannot be combined")),
    ],
)
def test_what_systemd_passes_otherwise_is_refused(
    family: int, more: tuple[str, ...], count: int, ends: tuple[int, str], hanging: Site
) -> None:
    with socket.socket(family) as listener:
        listener.bind(str(hanging.folder / "s") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        listener.listen()
        process = passed(hanging, listener, *more, count=count)
        _, told = process.communicate(timeout=60)
    code, text = ends
    assert (process.returncode, text in told) == (code, True), told


def test_a_server_that_runs_keeps_its_socket(
    hanging: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(hanging.folder / "hosts.yml"))
    path = hanging.folder / "web.sock"
    with socket.socket(socket.AF_UNIX) as live:
        live.bind(str(path))
        live.listen()
        assert main.run(["serve", "--socket", str(path)]) == 1
    assert f"another process already listens on {path}" in capsys.readouterr().err
    assert path.is_socket()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [("--keep 2h", 2, "--keep: at most 1h"), ("--check", 3, "would serve 1 host on ")],
)
def test_it_says_what_is_wrong_before_it_listens(
    arguments: str, code: int, told: str, hanging: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    path = hanging.folder / "web.sock"
    inventory = str(hanging.folder / "hosts.yml")
    assert main.run(["serve", "-i", inventory, "--socket", str(path), *arguments.split()]) == code
    assert told in capsys.readouterr().err
    assert not path.exists()


def test_without_the_extra_it_says_which_one_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "serve", None)  # if it came that far, it would never end
    monkeypatch.delattr(web, "app")
    monkeypatch.delitem(sys.modules, app.__name__)
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    assert main.run(["serve", "--socket", str(tmp_path / "web.sock")]) == 2
    told = capsys.readouterr().err
    assert "error: serve needs the extra `web`" in told
    assert "pip install 'vgpumgr[web]'" in told


def test_a_slot_has_all_its_sides_and_what_belongs_to_no_slot_is_not_lost() -> None:
    vm = {
        "claims": [
            {"slot": "vgpu0", "requested": "--profile 4Q", "type_name": "A40-4Q", "uuid": "u", "state": "bound"}
        ],
        "hostdevs": [{"slot": "vgpu0", "device": "u"}, {"slot": None, "device": "0000:01:00.0"}],
        "vgpus": [],
    }
    assert pages.slots(vm) == {
        "vgpu0": {
            "Asked": {"wish": "--profile 4Q"},
            "Claim": {"state": "bound", "type": "A40-4Q", "vGPU": "u"},
            "Definition": {"device": "u"},
            "Driver": {},
        },
        "": {"Asked": {}, "Claim": {}, "Definition": {"device": "0000:01:00.0"}, "Driver": {}},
    }
