"""`advise` on hosts within this process, with a week of samples that were made by hand: what it says is so once it is done."""

from __future__ import annotations

import time
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import document
from tests.unit.documents import published
from tests.unit.metrics import made_up
from vgpumgr.core.usage.readings import OFF, Load, Measured
from vgpumgr.names import HostName
from vgpumgr.store.place import SAMPLES
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    import pytest

    from tests.acceptance.near import Near

DAY_S, GIB = 86_400, 1 << 30
PAGE = Path(__file__).parents[2] / "docs" / "advise.md"


def week(host: Near, loads: dict[str, tuple[int, float] | None], now_s: float) -> None:
    """A week of samples up to that moment: each VM's SM in percent and framebuffer in GiB; None: it was off."""
    rows = {row["vm"]: row for row in document(host, "list")["vgpus"]}
    gpus = []
    for pci in sorted({row["gpu"] for row in rows.values()}):
        gpu = made_up.gpu()
        vgpus = []
        for number, (vm, load) in enumerate(loads.items()):
            row = rows[vm]
            if row["gpu"] == pci:
                one = replace(
                    made_up.vgpu(number, vm=vm, state=OFF if load is None else "running"),
                    vm_uuid=row["vm_uuid"],
                    slot=row["slot"],
                    type_name=row["type_name"],
                    entitled=Fraction(1, 6),
                    framebuffer_size_bytes=row["framebuffer_mib"] << 20,
                    framebuffer_used_bytes=None if load is None else int(load[1] * GIB),
                    load=None if load is None else Load(sm=load[0], memory=0, encoder=0, decoder=0),
                )
                vgpus.append(one)
        gpus.append(replace(gpu, pci=pci, vgpus=tuple(vgpus)))
    for at in (now_s - 7.5 * DAY_S, now_s):
        one_round = made_up.one_round(*gpus, at=at)
        measured = tuple(
            Measured(
                gpu=gpu.pci, vgpu=vgpu, since_us=int((at - 7.5 * DAY_S) * 1e6), until_us=int(at * 1e6), load=vgpu.load
            )
            for gpu in gpus
            for vgpu in gpu.vgpus
            if vgpu.load is not None and at == now_s
        )
        one_round = replace(one_round, host=HostName("kvm01"), measured=measured)
        Samples(host.inventory.parent / SAMPLES).add([one_round], every_s=8.0 * DAY_S)


def fits(host: Near, profile: str) -> int:
    return sum(one["fits_now"] for one in document(host, "capacity", profile)["gpus"])


def test_a_week_of_samples_gives_advice_and_its_commands_free_what_it_says(
    near_host: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    vgpumgr(near_host, "attach", "vm01", "vm02", "vm03", "vm04", "--profile", "8Q", "--gpu-id", "0000:41:00.0")
    vgpumgr(near_host, "attach", "vm05", "--profile", "2Q", "--gpu-id", "0000:81:00.0")
    later = time.time() + 8 * DAY_S
    week(near_host, {"vm01": None, "vm02": (2, 1.2), "vm03": (12, 7.9)}, later)
    monkeypatch.setattr("vgpumgr.cli.commands.advise.time.time", lambda: later)
    before = near_host.trace("kvm01")
    found = document(near_host, "advise")
    assert published.problems("advise", found) == []
    assert near_host.trace("kvm01") == before
    assert document(near_host, "report")["advice"] == found["advice"]
    advice: dict[str, dict[str, Any]] = {one["vm"]: one for one in found["advice"]}
    assert {vm: (one["kind"], one["advised"]) for vm, one in advice.items()} == {
        "vm01": ("never-used", None),
        "vm02": ("too-big", "A40-2Q"),
        "vm03": ("too-small", "A40-12Q"),
    }
    assert [(one["kind"], one["vm"]) for one in found["findings"]] == [("no-advice", "vm04"), ("no-advice", "vm05")]
    assert advice["vm02"]["evidence"]["peak_percent"] == 2
    ran = vgpumgr(near_host, "advise")
    told = [line for line in (ran.out + ran.err).splitlines() if not line.startswith("reading ")]
    assert "\n".join(["```text", "$ vgpumgr advise", *told, "```"]) in PAGE.read_text(encoding="utf-8")
    for vm in ("vm01", "vm02"):
        gain = advice[vm]["gain"]
        had = fits(near_host, gain["type_name"])
        verb, *words = advice[vm]["command"].removeprefix("vgpumgr ").split()
        vgpumgr(near_host, verb, *words, "--yes")
        assert fits(near_host, gain["type_name"]) - had == gain["more"] > 0
    assert "3 VMs on kvm01: no advice on … slot vgpu0: there is no sample of it" in vgpumgr(near_host, "advise").err
    assert [one["vm"] for one in document(near_host, "advise", "vm03")["advice"]] == ["vm03"]
    assert vgpumgr(near_host, "advise", "vm99", "-o", "json", code=2).err.count("vm99") == 1


def test_without_samples_it_says_so_and_still_knows_a_move_that_empties_a_gpu(near_host: Near) -> None:
    vgpumgr(near_host, "attach", "vm01", "--profile", "8Q", "--gpu-id", "0000:41:00.0")
    vgpumgr(near_host, "attach", "vm02", "--profile", "8Q", "--gpu-id", "0000:81:00.0")
    (one,) = document(near_host, "advise")["advice"]
    assert (one["kind"], one["gain"]["more"]) == ("empties-gpu", 1)
    vgpumgr(near_host, *one["command"].split()[1:], "--yes")
    assert document(near_host, "advise")["advice"] == []
