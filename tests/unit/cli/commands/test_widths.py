"""`top --once` and `usage` on a terminal: whatever they print, no line is longer than the terminal is wide."""

from __future__ import annotations

import gc
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import pytest

from tests.unit.cli.top import example
from tests.unit.metrics import made_up
from tests.unit.store.samples_of import SECOND, failed_round, load, measured_round
from vgpumgr.cli import main
from vgpumgr.cli.text import output
from vgpumgr.cli.text.wrapping import cell_width
from vgpumgr.controller import sampling
from vgpumgr.store.place import SAMPLES
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.usage.readings import Load, Round

WIDTHS = (60, 160)
HOST = "hypervisor-017.rack-4.example.net"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory of a host with a long name, and a store that is named but not there."""
    (tmp_path / "hosts.yml").write_text(f"hypervisors: {{hosts: {{{HOST}: , kvm02: , kvm03: }}}}\n", encoding="utf-8")
    monkeypatch.setenv("VGPUMGR_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(tmp_path / "hosts.yml"))
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    return tmp_path


@pytest.fixture
def stored(site: Path) -> None:
    """Three hours, of which the last ended two hours ago: busy, idle, off, and unread hosts."""
    now = int(time.time()) * SECOND
    samples = Samples(site / SAMPLES)
    for hours in (5, 4, 3):
        since = now - hours * 3600 * SECOND
        loads: dict[str | None, Load | None] = {"vm01": load(20 * hours, 7), "vm02": load(0), "vm03": None}
        loads |= {f"vm{number}": None for number in range(10, 40)}
        samples.add([measured_round(loads, since_us=since, until_us=since + 3600 * SECOND, host=HOST)], every_s=10)
    samples.add([failed_round("HostDeadline", at_us=now - 7200 * SECOND, host="kvm02")], every_s=10)


def lines_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int, *arguments: str
) -> list[str]:
    """What the command prints on a terminal of that width, stderr's lines too."""
    monkeypatch.setattr(output, "width", lambda _stream=None: width)
    assert main.run([*arguments, "--color", "never"]) == 0
    said = capsys.readouterr()
    return [*said.out.splitlines(), *said.err.splitlines()]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("arguments", [(), ("vm01",), ("vm01", "--idle", "2h"), ("--since", "7d")])
@pytest.mark.usefixtures("stored")
def test_no_line_of_usage_is_longer_than_the_terminal(
    width: int, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines_of(monkeypatch, capsys, width, "usage", *arguments)
    assert any(line.startswith("warning: no sample for ") for line in found)
    assert [line for line in found if cell_width(line) > width] == []
    assert gc.isenabled()  # it rests while `usage` counts, and only then


def test_where_there_is_no_sample_no_line_is_longer_either(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lines_of(monkeypatch, capsys, 60, "usage")
    assert str(site) in "".join(line.strip() for line in found)
    assert [line for line in found if cell_width(line) > 60] == []


class _Sampler:
    """Reads no host: what it says is the example of the pictures, one host's name being long."""

    def __init__(self, *_: object) -> None:
        pass

    def round(self) -> tuple[Round, ...]:
        first, second, third = example.fleet(3)
        return (replace(first, host=made_up.one_round(made_up.gpu(), host=HOST).host), second, third)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.usefixtures("site")
def test_no_line_of_one_reading_is_longer_than_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sampling, "Sampler", _Sampler)
    found = lines_of(monkeypatch, capsys, width, "top", "--once")
    assert any(line.startswith("vm07") for line in found)
    assert [line for line in found if cell_width(line) > width] == []


class _Empty(_Sampler):
    def round(self) -> tuple[Round, ...]:
        return (made_up.one_round(made_up.gpu(), host=HOST),)


@pytest.mark.usefixtures("site")
def test_one_reading_without_a_vgpu_says_so_and_what_makes_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sampling, "Sampler", _Empty)
    found = lines_of(monkeypatch, capsys, 60, "top", "--once")
    assert "no VM has a vGPU on the 1 host that could be read" in found
    assert "`vgpumgr attach VM --profile 4Q` makes one" in found
