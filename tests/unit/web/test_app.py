"""The addresses of `serve`: what each answers, with which headers, and that nothing but reading is taken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.unit.web.asking import ask
from vgpumgr import errors
from vgpumgr.web import app
from vgpumgr.web.openapi import Operation, Parameter
from vgpumgr.web.told import Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.web.told import Query
    from vgpumgr.web.viewer import Viewer


class Made:
    """A site that says what it was asked."""

    pages = ("fleet", "vm")

    def operations(self) -> Sequence[Operation]:
        return (
            Operation(name="list", summary="", parameters=(Parameter(name="on", description="", is_many=True),)),
            Operation(name="show", summary="", parameters=(Parameter(name="vm", description="", is_path=True),)),
        )

    def document(self, name: str, query: Query, viewer: Viewer) -> Told:
        if ("vm", "none") in query:
            return Told(document=None, error=errors.UnknownVm("no VM none", hint="look"))
        if ("vm", "bug") in query:
            raise RuntimeError("a bug")
        return Told(document={"name": name, "query": [*map(list, query)]}, age_s=1.2)

    def page(self, name: str, query: Query, viewer: Viewer) -> tuple[str, Told]:
        told = self.document(name, query, viewer)
        return f"<p>{name}", told

    def error_page(self, error: errors.VgpumgrError) -> str:
        return f"<p>{error.message}"


SITE = app.application(Made())


def test_a_document_is_what_the_site_says_of_the_parameters_in_path_and_query() -> None:
    one = ask(SITE, "/api/v1/show/vm%3C1%3E?on=kvm01&on=kvm02")
    assert json.loads(one.text) == {"name": "show", "query": [["vm", "vm<1>"], ["on", "kvm01"], ["on", "kvm02"]]}
    assert (one.status, one.headers["content-type"], one.headers["age"]) == (200, "application/json", "2")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/", 200),
        ("/vm?vm=none", 404),
        ("/nothing", 404),
        ("/static/claim.xml.j2", 404),
        ("/static/page.css", 200),
        ("/api/v1/list", 200),
        ("/api/v1/show/none", 404),
        ("/api/v1/nothing", 404),
    ],
)
def test_each_answer_forbids_foreign_code_frames_and_keeping(target: str, status: int) -> None:
    one = ask(SITE, target)
    assert one.status == status
    policy = one.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert (one.headers["x-content-type-options"], one.headers["cache-control"]) == ("nosniff", "no-store")
    assert one.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("target", ["/", "/api/v1/list"])
def test_nothing_but_reading_is_taken(target: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        one = ask(SITE, target, method)
        assert (one.status, one.headers["allow"]) == (405, "GET, HEAD")
        assert "this server only reads" in one.text


@pytest.mark.parametrize(
    ("name", "status"),
    [("localhost:8080", 200), ("127.0.0.1", 200), ("evil.example", 400), ("localhost.evil.example", 400)],
)
def test_a_page_of_another_site_whose_name_leads_here_gets_nothing(name: str, status: int) -> None:
    assert ask(SITE, "/api/v1/list", host=name).status == status


def test_an_error_of_the_api_is_the_commands_error_object() -> None:
    assert json.loads(ask(SITE, "/api/v1/show/none").text) == {
        "error": "UnknownVm",
        "message": "no VM none",
        "hint": "look",
        "details": [],
    }
    assert json.loads(ask(SITE, "/api/v1/nothing").text)["error"] == "UnknownName"


def test_a_bug_is_an_error_object_too() -> None:
    one = ask(SITE, "/api/v1/show/bug")
    assert one.status == 500
    assert json.loads(one.text)["error"] == "Unexpected"
    assert "Traceback" not in one.text


def test_the_description_names_each_address_and_every_reference_leads_somewhere() -> None:
    found = json.loads(ask(SITE, "/api/v1/openapi.json").text)
    assert [*found["paths"]] == ["/api/v1/list", "/api/v1/show/{vm}"]
    (on,) = found["paths"]["/api/v1/list"]["get"]["parameters"]
    assert (on["in"], on["schema"]["type"]) == ("query", "array")
    targets = {part.split('"')[0] for part in json.dumps(found).split('"$ref": "')[1:]}
    assert len(targets) > 20
    for target in targets:
        value = found
        for key in target.removeprefix("#/").split("/"):
            value = value[key]
        assert value
