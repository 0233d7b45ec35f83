"""`vgpumgr usage` on a store that was made by hand: what it prints in each format, and what it says where there is nothing."""

from __future__ import annotations

import io
import json
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.unit.documents import published
from tests.unit.store.samples_of import GIB, SECOND, T0, failed_round, load, measured_round
from vgpumgr.cli import main
from vgpumgr.cli.text import sparkline
from vgpumgr.store.place import SAMPLES
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vgpumgr.core.usage.readings import Load

NOW_S = T0 / SECOND + 12 * 3600 + 10 * 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory with one host and a declared VM, and no store yet; time stands still."""
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    inventory = tmp_path / "inventory"
    (inventory / "host_vars").mkdir(parents=True)
    (inventory / "hosts.yml").write_text("hypervisors: {hosts: {kvm01: }}\n", encoding="utf-8")
    (inventory / "host_vars" / "kvm01.yml").write_text(
        "vgpumgr_vms: {vm90: {vgpu0: {profile: 4Q}}}\n", encoding="utf-8"
    )
    return tmp_path


@pytest.fixture
def stored(folder: Path) -> int:
    """vm01 and vm02 measured for a minute up to now, in microseconds, vm03 off, a second host dead."""
    now = int(NOW_S) * SECOND
    samples = Samples(folder / SAMPLES)
    for number in range(6):
        since = now - (60 - number * 10) * SECOND
        loads: dict[str | None, Load | None] = {"vm01": load(40 + number, 7), "vm02": load(0), "vm03": None}
        samples.add([measured_round(loads, since_us=since, until_us=since + 10 * SECOND)], every_s=10)
    samples.add([failed_round(at_us=now, host="kvm02")], every_s=10)
    return now


class Said(NamedTuple):
    """What a command printed."""

    out: str
    err: str


@pytest.fixture
def run(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`vgpumgr usage ARGUMENTS` with that inventory and store."""
    monkeypatch.setenv("VGPUMGR_STORE", str(folder / "store.sqlite"))
    monkeypatch.setenv("VGPUMGR_INVENTORY", str(folder / "inventory"))

    def usage(*arguments: str, code: int = 0) -> Said:
        assert main.run(["usage", *arguments]) == code
        return Said(*capsys.readouterr())

    return usage


@pytest.mark.usefixtures("stored")
def test_the_table_has_each_vm_and_says_what_it_is_of(run: Callable[..., Said]) -> None:
    done = run()
    heads, first, second, third = done.out.splitlines()
    assert " ".join(heads.split()) == (
        "VM SLOT HOST GPU TYPE ENTITLED SM P50 P95 MAX OF SHARE FB MAX FB SIZE HEADROOM COVERAGE SM OVER TIME"
    )
    percents = ["25%", "42%", "42%", "45%", "45%", "170%", "1.0", "GiB", "12.0", "GiB", "11.0", "GiB", "0.1%"]
    assert first.split()[:18] == ["vm01", "vgpu0", "kvm01", "0000:41:00.0", "A40-12Q", *percents]
    assert first.endswith(sparkline.BLOCKS[3])
    assert second.split()[5:11] == ["25%", "0%", "0%", "0%", "0%", "0%"]
    assert third.split()[5:] == ["25%", *"?????", "?", "12.0", "GiB", "?", "0%"], (
        "a VM that is off used nothing that is known"
    )
    assert "each bar is 1 h" in done.err
    assert "each bar" not in run("--columns", "vm,sm").err
    assert "kvm02: the last attempt to read it failed (Unreachable)" in done.err


@pytest.mark.usefixtures("stored")
def test_one_vm_is_told_engine_by_engine(run: Callable[..., Said]) -> None:
    lines = run("vm01", "--since", "1h").out.splitlines()
    assert lines[0] == "vm01 vgpu0 on kvm01 0000:41:00.0, A40-12Q, running"
    assert lines[2] == "  entitled     25% of the GPU, used 170% of that (SM)"
    assert lines[3] == "  framebuffer  1.0 GiB now, at most 1.0 GiB of 12.0 GiB, 11.0 GiB never used"
    assert [line.split()[:5] for line in lines[6:8]] == [
        ["sm", "42%", "42%", "45%", "45%"],
        ["memory", "7%", "7%", "7%", "7%"],
    ]


@pytest.mark.usefixtures("week")
def test_one_vm_has_plots_with_axes_in_a_pipe_too(run: Callable[..., Said]) -> None:
    """vm01 used 60 % of the GPU for three hours; vm03 was off, and what nobody measured has no plot."""
    lines = run("vm01", "--since", "3h").out.splitlines()
    first = lines.index("SM, percent of the whole GPU")
    second = lines.index("framebuffer, GiB: the most that was used")
    assert (lines[first + 1][:8], lines[first + 4][:8]) == ("  100% │", "   50% │")
    assert set(lines[first + 4][8:].strip()) == {sparkline.BLOCKS[7]}
    assert lines[second + 1].split()[0] == "12.0"
    assert lines[second + 7].split()[0] == "0"
    assert all(len(line) <= 80 for line in lines[first:])
    assert "SM, percent" not in run("vm03", "--since", "3h").out


def test_json_has_numbers_times_and_null_where_nothing_is_known(run: Callable[..., Said], stored: int) -> None:
    document = json.loads(run("-o", "json").out)
    assert published.problems("usage", document) == []
    assert (document["step_s"], document["every_s"]) == (3600, 10)
    assert [finding["kind"] for finding in document["findings"]] == ["unread"]
    vm01, vm02, vm03 = document["vgpus"]
    assert (vm01["sm"]["mean"], vm01["memory"]["max"], vm01["samples"]) == (42.5, 7, 6)
    assert vm01["last_at"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stored / SECOND))
    assert vm01["sm"]["series"][:20] == [None] * 20
    assert len([value for value in vm01["sm"]["series"] if value is not None]) in (1, 2)
    assert vm02["sm"]["mean"] == vm02["sm"]["p95"] == 0
    assert (vm03["state"], vm03["sm"]["mean"], vm03["framebuffer_used_bytes"]) == ("off", None, None)
    assert vm01["framebuffer_headroom_bytes"] == 11 * GIB


@pytest.mark.usefixtures("stored")
def test_where_stdout_is_not_unicode_the_bars_are_marks(
    run: Callable[..., Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as plain:
        monkeypatch.setattr(sys, "stdout", plain)
        run("vm01")
        plain.flush()
        out = raw.getvalue().decode("ascii")
    assert [line.split()[-1][-1] for line in out.splitlines()[6:10]] == [
        sparkline.ASCII[level] for level in (3, 0, 0, 0)
    ]


def test_bars_stand_on_one_scale_and_a_gap_is_blank() -> None:
    values = [0, 12.4, 12.5, 50, 99, 100, None, 1]
    assert sparkline.sparkline(values, sparkline.BLOCKS) == "▁▁▂▅██ ▁"
    assert sparkline.sparkline(values, sparkline.ASCII) == "..:+%% ."


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (("vm1",), "UnknownName", "did you mean vm01?"),
        (("no-such",), "UnknownName", "`vgpumgr usage` lists all of them"),
        (("--on", "kvm0"), "UnknownHost", "`vgpumgr docs choosing` has every form"),
        (("--on", "vm01"), "UnknownHost", "`vgpumgr docs choosing` has every form"),
        (("vm*", "!vm1"), "UnknownName", "did you mean vm01?"),
        (("vm01", "!kvm0*"), "UnknownHost", None),
        (("--since", "500d"), "UsageError", None),
        (("--since", "soon"), "UsageError", "vgpumgr usage --help"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest_one(
    run: Callable[..., Said], arguments: tuple[str, ...], error: str, hint: str | None
) -> None:
    told = json.loads(run(*arguments, "-o", "json", code=2).err)
    assert told["error"] == error
    assert hint is None or hint in told["hint"]


@pytest.mark.usefixtures("stored")
def test_a_vm_of_the_inventory_that_was_never_sampled_is_no_mistake(run: Callable[..., Said]) -> None:
    assert run("vm90").out.startswith("no vGPU existed, or was measured")
    assert json.loads(run("vm90", "-o", "json").out)["vgpus"] == []


def test_without_samples_it_says_how_to_have_some(run: Callable[..., Said], folder: Path) -> None:
    assert "`vgpumgr collect` takes one" in run().out
    assert json.loads(run("-o", "json").out)["vgpus"] == []
    assert not (folder / SAMPLES).exists()


@pytest.fixture
def week(folder: Path) -> None:
    """Two hours of five vGPUs: vm01 busy, vm02 idle, vm03 off all the time, vm04 idle but seen for half of it, vm05 once at 30 %."""
    now = int(NOW_S) * SECOND
    samples = Samples(folder / SAMPLES)
    start, half = now - 3 * 3600 * SECOND, now - 3600 * SECOND
    all_the_time: dict[str | None, Load | None] = {"vm01": load(60), "vm02": load(0), "vm03": None, "vm05": load(1)}
    samples.add([measured_round(all_the_time, since_us=start, until_us=half)], every_s=10)
    late: dict[str | None, Load | None] = {**all_the_time, "vm04": load(0)}
    samples.add([measured_round(late, since_us=half, until_us=now - 10 * SECOND)], every_s=10)
    samples.add([measured_round({**late, "vm05": load(30)}, since_us=now - 10 * SECOND, until_us=now)], every_s=10)


@pytest.mark.usefixtures("week")
def test_idle_names_what_did_nothing_and_what_is_not_known(run: Callable[..., Said]) -> None:
    """One busy sample is enough not to be idle; a vGPU that was off, or not measured, is not known to be."""
    done = run("--idle", "2h")
    assert [line.split()[0] for line in done.out.splitlines()] == ["VM", "vm02"]
    assert "not judged, too little measured: vm03/vgpu0 on kvm01 (0%, off), vm04/vgpu0 on kvm01 (" in done.err
    assert run("--idle", "2h", "--idle-limit", "30%", "-o", "name").out.split() == ["vm02", "vm05"]
    document = json.loads(run("--idle", "2h", "-o", "json").out)
    assert published.problems("usage", document) == []
    assert [row["vm"] for row in document["vgpus"]] == ["vm02"]
    assert [(row["vm"], row["state"]) for row in document["not_judged"]] == [("vm03", "off"), ("vm04", "running")]
    none = run("vm01", "--idle", "2h")
    assert none.out.startswith("no vGPU is known to be idle, ")


def test_idle_also_names_what_was_off_and_since_when(run: Callable[..., Said], folder: Path) -> None:
    """As far as it was seen: vm03 in each round of three hours, vm04 in those of the last one."""
    now, step = int(NOW_S) * SECOND, 600 * SECOND
    samples = Samples(folder / SAMPLES)
    for ago in range(18, 0, -1):
        loads: dict[str | None, Load | None] = {"vm01": load(60), "vm03": None}
        loads |= {} if ago > 6 else {"vm04": None}
        since = now - ago * step
        samples.add([measured_round(loads, since_us=since, until_us=since + step)], every_s=600)
    shown = run("--idle", "2h").out.splitlines()
    assert [line.split()[0] for line in shown] == ["VM", "vm03"]
    assert shown[0].endswith("OFF SINCE")
    assert shown[1].endswith("2h ago")
    assert [line.split()[0] for line in run("--idle", "30m").out.splitlines()] == ["VM", "vm03", "vm04"]
    document = json.loads(run("--idle", "2h", "-o", "json").out)
    assert published.problems("usage", document) == []
    assert document["vgpus"][0]["off_since"] is not None
    assert [(row["vm"], row["off_since"] is None) for row in document["not_judged"]] == [("vm04", False)]


@pytest.mark.usefixtures("week")
@pytest.mark.parametrize(
    ("arguments", "vms"),
    [
        (("vm02",), "vm02"),
        (("vm0*", "!vm03"), "vm01 vm02 vm04 vm05"),
        (("vm[01:02]", "vm05"), "vm01 vm02 vm05"),
        (("kvm01",), "vm01 vm02 vm03 vm04 vm05"),
        (("hypervisors",), "vm01 vm02 vm03 vm04 vm05"),  # a group of the inventory
        (("--on", "kvm0*", "vm01"), "vm01"),
        (("--on", "kvm01"), "vm01 vm02 vm03 vm04 vm05"),
    ],
)
def test_patterns_choose_what_was_measured(run: Callable[..., Said], arguments: tuple[str, ...], vms: str) -> None:
    assert run(*arguments, "-o", "name").out.split() == vms.split()


@pytest.mark.usefixtures("week")
def test_over_names_what_uses_more_than_its_share_or_its_framebuffer(run: Callable[..., Said]) -> None:
    """vm01 used 60 % of a GPU of which it has a quarter; the others used 1 of 12 GiB."""
    assert run("--over", "90%", "--since", "2h", "-o", "name").out.split() == ["vm01"]
    assert run("--over", "250", "--since", "2h", "-o", "name").out.split() == []
    assert run("--over", "5%", "--since", "2h", "-o", "name").out.split() == ["vm01", "vm02", "vm04", "vm05"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--idle", "7d", "--since", "7d"], "--since cannot be combined with --idle"),
        (["--idle", "7d", "--over", "90"], "--idle cannot be combined with --over"),
        (["--idle-limit", "5"], "--idle-limit is for --idle"),
        (["--idle-limit", "1", "--over", "90"], "--idle-limit is for --idle"),
        (["--idle", "900d"], "--idle: at most 400d"),
        (["--sort", "smm"], "did you mean sm"),
        (["--over", "x"], "'x' is not a percentage from 0 to 10000"),
        (["--idle-limit", "101"], "from 0 to 100"),
    ],
)
def test_what_cannot_be_selected_is_refused(run: Callable[..., Said], words: list[str], says: str) -> None:
    assert says in run(*words, code=2).err


@pytest.mark.usefixtures("stored")
def test_the_hours_of_each_owner_add_up_for_a_bill(run: Callable[..., Said], folder: Path) -> None:
    """vm01 and vm02 ran for a minute, a quarter of a GPU each; vm03 was off; kvm02 is not in the inventory."""
    (folder / "inventory/host_vars/kvm01.yml").write_text(
        "vgpumgr_owner: shared\nvgpumgr_vms: {vm01: {owner: 'Team, A', vgpu0: {profile: 12Q}}}\n", encoding="utf-8"
    )
    heads, *rows = run("--by", "owner", "--since", "1h", "-o", "csv").out.splitlines()
    assert heads == "owner,vms,vgpus,vgpu_hours,gpu_hours,gpu_used_hours,framebuffer_gib_hours"
    assert rows[0].startswith('"Team, A",1,1,0.017,0.004,0.007,0.2')
    assert rows[1].startswith("shared,2,2,")
    (first, second) = json.loads(run("--by", "owner", "--since", "1h", "-o", "json").out)["owners"]
    off_hours = 50 / 3600
    assert second["vgpu_hours"] == pytest.approx(60 / 3600 + off_hours, abs=0.001)
    assert (first["vms"], second["gpu_used_hours"]) == (1, 0)
    assert run("--by", "owner").out.split()[:2] == ["OWNER", "VMS"]
    (named,) = json.loads(run("vm01", "--by", "owner", "-o", "json").out)["owners"]
    assert named["owner"] == "Team, A"
    assert json.loads(run("-o", "json").out)["owners"] is None


def test_collect_keeps_no_sample_longer_than_samples_can_be_added_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["collect", "--keep", "401d"]) == 2
    assert "error: --keep: at most 400d" in capsys.readouterr().err
