"""Findings reach a person or a script in every format: within the document, or on stderr beside the rows."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from tests.acceptance.near import Sites
    from tests.model.machine import Content


def _offers_nothing(where: str, content: Content) -> Content:
    return b"ID    : vGPU Name\n" if where.endswith("41:00.4/nvidia/creatable_vgpu_types") else content


COMMANDS = (
    ("list",),
    ("show", "vm01"),
    ("discover",),
    ("capacity",),
    ("capacity", "8Q"),
    ("plan",),
    ("attach", "vm01", "--profile", "8Q", "--check"),
    ("attach", "vm01", "vm02", "--profile", "8Q", "--check"),
)


def test_rows_alone_have_the_findings_beside_them_on_stderr(near_site: Sites) -> None:
    vms = ("vm01", "vm02")
    near = near_site({"kvm01": NearHost(vms=vms, board="L40S", framework=VENDOR_VFIO, shown=_offers_nothing)})
    vgpumgr(near, "cordon", "kvm01", "--gpu-id", "0000:81:00.0", "--reason", "ECC errors")
    near.declare("kvm01", ansible_become_flags="-H")
    for words, form in zip(COMMANDS, itertools.cycle(("csv", "jsonl", "name")), strict=False):
        code = 3 if "--check" in words else 0
        found = vgpumgr(near, *words, "-o", "json", code=code).document["findings"]
        told = vgpumgr(near, *words, "-o", form, code=code)
        lines = [json.loads(one)["message"] for one in told.err.splitlines()] if form == "jsonl" else told.warnings
        assert {*lines} == {one["text"] for one in found} != set(), (words, form)


def test_what_a_plan_that_is_not_shown_would_say_first_is_beside_the_rows_too(near_site: Sites) -> None:
    near = near_site({"kvm01": NearHost(vms=("vm01",))})
    vgpumgr(near, "attach", "vm01", "--profile", "4Q")
    near.declare("kvm01", vgpumgr_even_if_it_will_not_start=True)
    near.machines["kvm01"].reboot(Upgrade(framework=VENDOR_VFIO))
    near.machines["kvm01"].libvirt.version = 9_000_000
    words = ("migrate-framework", "kvm01", "--check")
    (one,) = vgpumgr(near, *words, "-o", "json", code=3).document["findings"]
    assert one["kind"] == "will-not-start"
    assert vgpumgr(near, *words, "-o", "csv", code=3).warnings == [one["text"]]
    assert vgpumgr(near, *words, code=3).warnings == [one["text"]]
