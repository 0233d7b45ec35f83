"""The page `ask` of `serve` shows what `explain` and `place` say, and its command lines ask the same."""

from __future__ import annotations

import html
import json
import shlex
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance import near
from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document
from tests.acceptance.test_report import HOSTILE, Page
from tests.acceptance.test_serve import served
from tests.dose import dose
from tests.unit.web.asking import ask
from vgpumgr.cli.rows import ask as ask_page
from vgpumgr.cli.rows import site as site_pages
from vgpumgr.web.told import Told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from tests.acceptance.near import Near
    from tests.model.pool import Pool
    from tests.unit.web.asking import Response

DASHED = "--yes"
FIELDS = ("vm", "way", "amount", "count", "on")


@pytest.fixture(scope="module")
def site(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Near]:
    """Two hosts with room on three GPUs, and a unit of the site's own; the tests only read."""
    hosts = {"kvm01": NearHost(vms=("vm01", HOSTILE, DASHED)), "kvm02": NearHost(vms=("vm02",))}
    with near.site(pool, hosts, tmp_path_factory.mktemp("ask")) as found:
        for host in hosts:
            found.declare(host, vgpumgr_fgpu_per_gpu={"A40": 2})
        vgpumgr(found, "attach", "vm01", "--profile", "8C", "--on", "kvm01")
        vgpumgr(found, "attach", "vm02", "--profile", "48Q", "--on", "kvm02")
        yield found


@pytest.fixture(scope="module")
def application(site: Near) -> ASGIApp:
    del site
    return served()


def asked(application: ASGIApp, **typed: str) -> Response:
    return ask(application, "/ask?" + urlencode(typed, errors="replace"))


def said(answer: Response) -> str:
    """The text, each run of white space as one space."""
    return " ".join(Page(answer.text).text.split())


def lines(answer: Response) -> list[list[str]]:
    """The command lines to copy, as a shell takes them, without `vgpumgr`."""
    found = [one.partition("</code>")[0] for one in answer.text.split('<pre tabindex="0"><code>')[1:]]
    return [shlex.split(html.unescape(one))[1:] for one in found]


def values(answer: Response) -> dict[str, str | None]:
    """What stands in the fields."""
    tags = Page(answer.text).tags
    typed = {str(found["name"]): found["value"] for tag, found in tags if tag == "input"}
    chosen = [found["value"] for tag, found in tags if tag == "option" and "selected" in found]
    return {**typed, "way": chosen[0] if chosen else None}


@pytest.mark.parametrize("vm", ["vm01", HOSTILE, DASHED])
@pytest.mark.parametrize(("way", "amount"), [("gpu", "0.5"), ("fgpu", "0.3"), ("profile", "8C")])
def test_a_vm_is_shown_the_gpu_that_explain_puts_first_and_attach_takes(
    site: Near, application: ASGIApp, vm: str, way: str, amount: str
) -> None:
    answer = asked(application, vm=vm, way=way, amount=amount)
    (host,) = document(site, "explain", f"--{way}", amount, "--on", "kvm01")["hosts"]
    first = host["gpus"][0]
    assert (answer.status, first["rank"]) == (200, 1)
    assert answer.text.count('class="answer"') == 1
    assert f"{vm}: {first['type_name']} on kvm01, GPU {first['pci']}. {first['why']}" in said(answer)
    explain, check, attach = lines(answer)
    assert document(site, *explain)["hosts"] == [host]
    assert [word for word in check if word != "--check"] == attach
    if vm != "vm01":  # it has a vGPU already
        assert (planned(site, check), check[-1] == vm) == ([(vm, first["pci"], first["type_name"])], vm == DASHED)


def planned(site: Near, line: list[str]) -> list[tuple[str, str, str]]:
    """For which VM the plan of a line makes vGPUs, on which GPU, and of which type."""
    steps = vgpumgr(site, line[0], "-o", "json", *line[1:], code=3).document["plan"]
    return [(one["vm"], one["gpu"], one["type_name"]) for one in steps if one["verb"] == "create_vgpu"]


@pytest.mark.parametrize("on", ["", "kvm02"])
def test_vms_to_come_are_shown_the_places_of_place_in_their_order(site: Near, application: ASGIApp, on: str) -> None:
    answer = asked(application, vm="", way="profile", amount="24Q", count="2", on=on)
    places = document(site, "place", "--profile", "24Q", "--count", "2", *(["--on", on] if on else []))["places"]
    told = " ".join(
        f"vGPU {one['number']}: {one['type_name']} on {one['host']}, GPU {one['gpu']}. {one['why']}" for one in places
    )
    assert (answer.status, len(places)) == (200, 2)
    assert f"{told} On the command line" in said(answer)
    place, reserve, attach = lines(answer)
    assert document(site, *place)["places"] == places
    reserved = document(site, *reserve, "--check", code=3)["reservations"]
    assert [(one["host"], one["gpu"]) for one in reserved] == [(one["host"], one["gpu"]) for one in places]
    assert attach == ["attach", "VM", "--profile", "24Q"]


def test_several_for_one_vm_are_shown_on_its_own_host(site: Near, application: ASGIApp) -> None:
    answer = asked(application, vm=HOSTILE, way="profile", amount="24C", count="2")
    plan = planned(site, lines(answer)[1])
    assert len(plan) == 2
    for number, (_, gpu, kind) in enumerate(plan, 1):
        assert f"{HOSTILE} {number}: {kind} on kvm01, GPU {gpu}." in said(answer)


def test_a_vm_that_has_a_vgpu_is_told_which(application: ASGIApp) -> None:
    answer = asked(application, vm="vm01", way="profile", amount="8C")
    assert "vm01 has a vGPU already, or waits for one: vgpu0, --profile 8C." in said(answer)
    assert "has a vGPU already" not in said(asked(application, vm=HOSTILE, way="profile", amount="8C"))


@pytest.mark.parametrize(("vm", "status"), [("vm02", 200), ("", 409)])
def test_what_is_refused_is_shown_with_the_reason_of_each_gpu(
    site: Near, application: ASGIApp, vm: str, status: int
) -> None:
    wish = ("--profile", "48C", *(["--on", "kvm02"] if vm else []))
    answer = asked(application, vm=vm, way="profile", amount="48C", count="1" if vm else "9")
    text, hosts = said(answer), document(site, "explain", *wish)["hosts"]
    assert answer.status == status
    for host in hosts:
        for gpu in host["gpus"]:
            assert f"<tr><td>{host['name']}</td><td>{gpu['pci']}</td><td>A40</td>" in answer.text
            assert gpu["why"] in text
    assert ("of 9 find a place (--profile 48C" in text) == (not vm)
    refused = asked(application, vm=vm, way="mig-profile", amount="2g.10gb", on="kvm02")
    assert 'class="answer"' not in refused.text
    assert ("No GPU of kvm02 takes it now." in said(refused)) == bool(vm)
    assert [line[0] for line in lines(refused)] == (["explain", "attach"] if vm else ["place"])


WRONG = [
    ({"way": "gpu", "amount": "half"}, 400, "explain?gpu=half"),
    ({"way": "gpu", "amount": ""}, 400, "explain?gpu="),
    ({"way": "colour", "amount": "red"}, 400, "explain?colour=red"),
    ({"way": "gpu", "amount": "0.5", "count": "many"}, 400, "place?gpu=0.5&count=many"),
    ({"way": "profile", "amount": "@/etc/passwd"}, 400, "explain?profile=@/etc/passwd"),
    ({"way": "profile", "amount": "4Q", "on": "kvm77"}, 404, "explain?profile=4Q&on=kvm77"),
    ({"vm": "vm77", "way": "gpu", "amount": "0.5"}, 404, "show/vm77"),
    ({"vm": "vm02", "way": "gpu", "amount": "0.5", "on": "kvm01"}, 404, "show/vm02?on=kvm01"),
]


@pytest.mark.parametrize(("typed", "status", "target"), WRONG)
def test_what_is_wrong_is_the_apis_error_beside_the_form_which_keeps_what_was_typed(
    application: ASGIApp, typed: dict[str, str], status: int, target: str
) -> None:
    answer, told = asked(application, **typed), ask(application, f"/api/v1/{target}")
    assert (answer.status, told.status) == (status, status)
    assert json.loads(told.text)["message"] in Page(answer.text).text
    kept = {"vm": "", "count": "1", "on": "", **typed, "way": None if typed["way"] == "colour" else typed["way"]}
    assert values(answer) == kept
    assert ask(application, "/ask?amounts=1").status == 400


def test_the_form_needs_no_script_and_offers_every_vm_and_the_sites_unit(application: ASGIApp) -> None:
    answer = ask(application, "/ask")
    page = Page(answer.text)
    assert answer.status == 200
    assert "answer" not in answer.text
    assert [found for tag, found in page.tags if tag == "form"] == [{"action": "/ask", "method": "get"}]
    fields = [(tag, found.get("name")) for tag, found in page.tags if tag in ("input", "select", "textarea")]
    assert [name for _, name in fields] == [*FIELDS]
    assert sum(tag == "label" for tag, _ in page.tags) == len(fields)
    assert [tag for tag, _ in page.tags].count("button") == 1
    offered = [found["value"] for tag, found in page.tags if tag == "option"]
    assert sorted(filter(None, offered)) == sorted([HOSTILE, DASHED, "vm01", "vm02", *ask_page.WAYS])
    without = ask_page.Offered(vms=(), has_fgpu=False)
    nothing = ask_page.Answer(told=Told(document=None))
    assert 'value="fgpu"' not in site_pages.asked(ask_page.Form(), without, nothing)
    assert {"href": "/ask", "aria-current": "page"} in [found for tag, found in page.tags if tag == "a"]


def test_any_text_in_any_field_stays_a_text_and_is_no_bug(application: ASGIApp) -> None:
    texts = st.one_of(st.sampled_from([HOSTILE, '"><script>', "vm01", "8C", "gpu", "-", "@x", "\0", "*"]), st.text())

    @settings(max_examples=dose(12, 300), deadline=None)
    @given(st.dictionaries(st.sampled_from(FIELDS), texts, min_size=1))
    def stays(typed: dict[str, str]) -> None:
        answer = asked(application, **typed)
        page = Page(answer.text)
        assert answer.status in (200, 400, 404, 409)
        assert not {tag for tag, _ in page.tags} & {"img", "iframe", "object", "style"}
        assert [found["src"] for tag, found in page.tags if tag == "script"] == ["/static/serve.js"]
        assert not {key for _, found in page.tags for key in found if key.startswith("on")}

    stays()
