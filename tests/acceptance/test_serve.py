"""`serve` says what the commands say, reads each host once for all viewers, and takes no text for markup or for a file."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.acceptance import near
from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document
from tests.acceptance.test_report import HOSTILE, Page
from tests.unit.web.asking import ask, asked
from vgpumgr import errors
from vgpumgr.cli.commands.answers import ENDPOINTS, Answers
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.wiring import build_context
from vgpumgr.link import connection
from vgpumgr.web import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from tests.acceptance.near import Near
    from tests.model.pool import Pool
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host

_QUIET = Settings(quiet=True)
_OF_THE_CLOCK = ("made_at", "from", "to", "since", "until", "left_s")
# A request of each address, and the command line that asks the same.
REQUESTS = {
    "discover": "discover",
    "discover?hosts=kvm01": "discover kvm01",
    "list": "list",
    "list?named=vm01&on=kvm01": "list vm01 --on kvm01",
    "show/vm01?on=kvm01": "show vm01 --on kvm01",
    "profiles?fits=true": "profiles --fits",
    "capacity": "capacity",
    "capacity?profiles=8Q&profiles=24Q&count=100": "capacity 8Q 24Q --count 100",
    "capacity?gpu-memory=8G&on=kvm01": "capacity --gpu-memory 8G --on kvm01",
    "explain?gpu-memory=8G&compare=true": "explain --gpu-memory 8G --compare",
    "place?profile=8Q&count=2&policy=all": "place --profile 8Q --count 2 --policy all",
    "waiting": "waiting",
    "reservations": "reserve list",
    "report?since=1h": "report --since 1h",
    "mig_show?hosts=kvm01": "mig show kvm01",
    "usage": "usage",
    "usage?by=owner": "usage --by owner",
    "advise?named=kvm01&days=2": "advise kvm01 --days 2",
    "history?limit=2": "history --limit 2",
}


@pytest.fixture(scope="module")
def site(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Near]:
    """VMs, of which one waits and one has a hostile name, a dead host, and a reservation; the tests only read."""
    hosts = {"kvm01": NearHost(vms=("vm01", "vm02", "vm03", HOSTILE)), "kvm02": NearHost(vms=())}
    with near.site(pool, hosts, tmp_path_factory.mktemp("serve")) as found:
        found.dead.add("kvm02")
        for vm in ("vm01", HOSTILE):
            vgpumgr(found, "attach", vm, "--profile", "8Q", "--on", "kvm01")
        vgpumgr(found, "attach", "vm02", "--profile", "48Q", "--on", "kvm01")
        vgpumgr(found, "attach", "vm03", "--profile", "48Q", "--on", "kvm01", "--wait")
        vgpumgr(found, "reserve", "--profile", "8Q", "--for", "team-a", "--on", "kvm01")
        yield found


def served(keep_s: float = 60.0) -> ASGIApp:
    return app.application(Answers(_QUIET, lambda: build_context(_QUIET), keep_s))


def told(text: str) -> dict[str, Any]:
    """The object, without what tells the time."""
    found: dict[str, Any] = json.loads(
        text, object_pairs_hook=lambda pairs: {key: value for key, value in pairs if key not in _OF_THE_CLOCK}
    )
    return found


def test_each_address_says_what_its_command_says_with_a_dead_host_too(site: Near) -> None:
    application = served()
    assert {target.partition("?")[0].partition("/")[0] for target in REQUESTS} == ENDPOINTS.keys()
    for target, line in REQUESTS.items():
        answer = ask(application, f"/api/v1/{target}")
        done = site.run(*line.split(), "-o", "json")
        assert (answer.status, done.returncode in (0, 4, 5)) == (200, True), (target, answer.text, done.stderr)
        assert told(answer.text) == told(done.stdout), target


def test_fifty_viewers_read_each_host_once_and_a_dead_one_is_tried_once(
    site: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []
    really = connection.connect

    def reach(endpoint: Endpoint, **more: Any) -> Host:
        reached.append(endpoint.host)
        return really(endpoint, **more)

    monkeypatch.setattr(connection, "connect", reach)
    pages = ["/", "/waiting", "/owners", "/api/v1/list", "/api/v1/discover"]
    answers = asyncio.run(asked(served(), pages * 10))
    assert {answer.status for answer in answers} == {200}
    assert {answer.headers["age"].isdigit() for answer in answers} == {True}
    assert sorted(reached) == ["kvm01", "kvm02"]


def test_what_is_outdated_is_read_again(site: Near) -> None:
    site.links.clear()
    application = served(keep_s=0.0)
    for count in (1, 2):
        ask(application, "/api/v1/list")
        assert len(site.links) == count


REFUSED = [
    ("list?colour=red", 400, "no parameter 'colour'"),
    ("list?output=yaml", 400, "no parameter 'output'"),
    ("list?inventory=/etc", 400, "no parameter 'inventory'"),
    ("list?named=@/etc/passwd", 400, "'@/etc/passwd' names a file"),
    ("list?on=kvm01,%20@/etc/passwd", 400, "names a file"),
    ("show/vm01?on=kvm01&on=@/etc/passwd", 400, "names a file"),
    ("discover?hosts=--inventory", 404, "no host '--inventory'"),
    ("discover?hosts=nope", 404, "no host 'nope'"),
    ("show/vm77?on=kvm01", 404, "kvm01 has no VM 'vm77'"),
    ("show/vm77", 502, "1 could not be read"),
    ("show/vm01?on=kvm02", 502, "kvm02: tcp: connection refused"),
    ("show/%00?on=kvm01", 400, "'\\x00'"),
    ("show/@vm?on=kvm01", 404, "kvm01 has no VM '@vm'"),
    ("capacity?profiles=8Q&count=many", 400, "'many'"),
    ("capacity?profiles=8Q&count=1&count=2", 400, "count is given twice"),
    ("profiles?fits=perhaps", 400, "neither true nor false"),
    ("place?profile=8Q&hold=1h", 400, "no parameter 'hold'"),
    ("place?profile=48Q&count=9", 409, "0 of 9 find a place"),
    ("usage?since=401d", 400, "--since: at most 400d"),
]


def test_what_cannot_be_answered_is_an_error_object(site: Near) -> None:
    del site
    application = served()
    for target, status, text in REFUSED:
        answer = ask(application, f"/api/v1/{target}")
        error = json.loads(answer.text)
        assert set(error) == {"error", "message", "hint", "details"}, target
        assert (answer.status, text in error["message"]) == (status, True), (target, error)


_TEXTS = st.one_of(
    st.sampled_from(["kvm01", "vm01", "8Q", "7d", "@x", "-", "*", "!", "[", "~(", "a:b", "1e9", "\0"]), st.text()
)


def test_a_bug_in_a_command_is_an_error_object_and_its_traceback_is_printed(
    site: Near, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ENDPOINTS["waiting"].command, "callback", lambda **_: 1 // 0)
    answer = ask(served(), "/api/v1/waiting")
    assert (answer.status, json.loads(answer.text)["error"]) == (500, "Unexpected")
    assert [(one.levelname, one.exc_info is not None) for one in caplog.records] == [("CRITICAL", True)]


def test_no_request_is_a_bug(site: Near) -> None:
    """Any texts in place of names, numbers and times."""
    del site
    answers = Answers(_QUIET, lambda: build_context(_QUIET), 60.0)

    @given(st.sampled_from([*ENDPOINTS]), st.data())
    def told(name: str, data: st.DataObject) -> None:
        endpoint = ENDPOINTS[name]
        keys = st.sampled_from([key for key in (endpoint.arguments, *endpoint.options) if key])
        found = answers.document(name, data.draw(st.lists(st.tuples(keys, _TEXTS), min_size=1, max_size=3)))
        assert not isinstance(found.error, errors.Unexpected), found.error.message
        assert (found.document is None) == (found.error is not None) or isinstance(found.error, errors.RequestError)
        json.dumps(found.document)

    told()


def test_a_page_shows_a_hostile_name_as_text_and_says_which_command_shows_the_same(site: Near) -> None:
    application = served()
    for target in ("/", f"/vm?on=kvm01&vm={quote(HOSTILE)}", f"/vm?on=kvm01&vm={quote(HOSTILE)}x", "/waiting"):
        answer = ask(application, target)
        page = Page(answer.text)
        tags = {tag for tag, _ in page.tags}
        assert not tags & {"img", "iframe", "object", "form", "style"}, target
        assert not {key for _, found in page.tags for key in found if key.startswith("on") or key == "style"}
        assert [found["src"] for tag, found in page.tags if tag == "script"] == ["/static/serve.js"]
        assert HOSTILE in page.text or target == "/waiting"
    fleet = Page(ask(application, "/").text)
    links = [str(found["href"]) for tag, found in fleet.tags if tag == "a"]
    assert f"/vm?vm={quote(HOSTILE, safe='').replace('%20', '+')}&on=kvm01" in links
    assert "The same on the command line: vgpumgr report" in fleet.text
    assert "kvm02 was not read" in fleet.text


def test_the_fleet_has_the_bar_of_each_gpu_in_words_and_a_vm_its_four_sides(site: Near) -> None:
    application = served()
    gpus = document(site, "report", code=4)["gpus"]
    fleet = Page(ask(application, "/").text)
    bars = [str(found["aria-label"]) for _, found in fleet.tags if found.get("role") == "img"]
    assert len(bars) == len(gpus)
    assert "vm01, vgpu0, A40-8Q, 8 GiB, not in use" in bars[0]
    vm = document(site, "show", "vm01", "--on", "kvm01")["vm"]
    text = " ".join(Page(ask(application, "/vm?vm=vm01&on=kvm01").text).text.split())
    (claim,), (hostdev,) = vm["claims"], vm["hostdevs"]
    assert hostdev == {"slot": "vgpu0", "device": claim["uuid"]}
    assert f"Asked wish {claim['requested']}" in text
    assert f"Definition device {claim['uuid']} Driver state bound type A40-8Q" in text


def test_who_waits_is_shown_with_the_reason_of_each_gpu(site: Near) -> None:
    (slot,) = document(site, "waiting", code=4)["slots"]
    text = Page(ask(served(), "/waiting").text).text
    assert len(slot["details"]) == 2
    for said in ("Why vm03 vgpu0 waits", slot["why"], *slot["details"]):
        assert said in text


# A page, and the commands whose documents it shows.
PAGES = {
    "/": ["report"],
    "/card?host=kvm01&gpu=0000:41:00.0": ["report", "profiles", "capacity 1Q 48Q --on kvm01"],
}


def numbers(text: str) -> set[float]:
    return {float(one) for one in re.findall(r"\d+(?:\.\d+)?", text)}


def test_each_number_on_a_page_is_in_the_documents_of_the_same_moment(site: Near) -> None:
    """As it is there, or in GiB."""
    application = served()
    for target, commands in PAGES.items():
        text = Page(ask(application, target).text).text.partition("The same on the command line")[2]
        told = numbers("".join(site.run(*line.split(), "-o", "json").stdout for line in commands))
        told |= {round(one / 1024, 1) for one in told}
        assert numbers(text), target
        assert numbers(text) <= told, target


def test_a_card_says_how_many_of_each_profile_fit_and_why_not(site: Near) -> None:
    gpu = "0000:41:00.0"
    text = " ".join(Page(ask(served(), f"/card?host=kvm01&gpu={gpu}").text).text.split())
    profiles = [one for one in document(site, "profiles", code=4)["profiles"] if one["gpu"] == gpu]
    (full,) = [one for one in document(site, "capacity", "48Q", "--on", "kvm01")["gpus"] if one["gpu"] == gpu]
    left = {one["profile"]: one["fits_now"] for one in profiles}
    assert (left["48Q"], f"8A 8C 8Q {left['8Q']} 8 GiB" in text, full["why"] in text) == (0, True, True)
    assert f"{HOSTILE} A40-8Q - 8 GiB - not in use vgpu0" in text


@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("host=kvm01&gpu=0000:99:00.0", 404, "kvm01 has no GPU '0000:99:00.0'"),
        ("host=kvm77&gpu=0000:41:00.0", 404, "no host 'kvm77'"),
        ("host=kvm01", 400, "this page is about one GPU"),
        ("host=kvm01&gpu=x&colour=red", 400, "no parameter 'colour'"),
        ("host=kvm02&gpu=0000:41:00.0", 200, "kvm02 was not read"),
    ],
)
def test_a_card_that_is_not_there_is_said(site: Near, query: str, status: int, told: str) -> None:
    del site
    answer = ask(served(), f"/card?{query}")
    assert (answer.status, told in Page(answer.text).text) == (status, True), answer.text
