"""A real Prometheus (Debian's) for a test: started on loopback, asked by its HTTP API, ended by its pid."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from vgpumgr.lab.machine.sshd import reserve_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.unit.metrics.serving import Server

_PATIENCE_S = 60.0
_CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: vgpumgr
    honor_labels: true
    static_configs: [{{targets: ["{target}"]}}]
"""


def promtool(*arguments: str, folder: Path) -> str:
    """What it says; it has to be content."""
    done = subprocess.run(
        ["/usr/bin/promtool", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PATH": os.defpath},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def scraping(server: Server, folder: Path, *, rules: Path | None = None) -> Iterator[Prometheus]:
    """A Prometheus that scrapes this server and evaluates the rules once a second, with its files in `folder`."""
    config = folder / "prometheus.yml"
    target = "{}:{}".format(*server.address)
    config.write_text(_CONFIG.format(target=target, rules=rules or ""), encoding="utf-8")
    with (folder / "prometheus.log").open("w") as log, reserve_port() as reserved:
        port = reserved.getsockname()[1]
        process = subprocess.Popen(
            [
                "/usr/bin/prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GOMAXPROCS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(timeout=60)


class Prometheus:
    """The server's HTTP API."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"

    def query(self, text: str) -> list[tuple[dict[str, str], float]]:
        """An instant query's vector: labels without the name, and values."""
        found = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": text}))
        return [
            ({name: label for name, label in one["metric"].items() if name != "__name__"}, float(one["value"][1]))
            for one in found["data"]["result"]
        ]

    def until(self, text: str) -> list[tuple[dict[str, str], float]]:
        """The same query, again until it has an answer."""
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            try:
                if found := self.query(text):
                    return found
            except (urllib.error.URLError, ConnectionError):  # it does not listen yet
                pass
            time.sleep(0.1)
        pytest.fail(f"no answer to {text}: {self.targets()}")

    def alerts(self) -> set[tuple[str, str | None]]:
        """The alerts that fire: their names and hosts."""
        found = self._get("/api/v1/alerts")["data"]["alerts"]
        return {(one["labels"]["alertname"], one["labels"].get("host")) for one in found if one["state"] == "firing"}

    def until_alerts(self, wanted: set[tuple[str, str | None]]) -> None:
        """Wait until exactly these fire."""
        until, now = time.monotonic() + _PATIENCE_S, None
        while time.monotonic() < until:
            try:
                now = self.alerts()
            except (urllib.error.URLError, ConnectionError):  # it does not listen yet
                now = None
            if now == wanted:
                return
            time.sleep(0.1)
        pytest.fail(f"{now} fire, not {wanted}: {self.targets()}")

    def targets(self) -> Any:
        return self._get("/api/v1/targets")["data"]["activeTargets"]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self._url + path, timeout=10) as answer:
            return json.load(answer)
