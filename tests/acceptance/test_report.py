"""`report`: the page and the Markdown say what `list` says, need nothing else, and take no text for markup."""

from __future__ import annotations

import html.parser
import os
import stat
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.near import Near, Sites

HOSTILE = '"><img src=x onerror=alert(1)>|[a](b)'


class Page(html.parser.HTMLParser):
    """The tags of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.text += " " if tag in ("td", "th") else ""

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture
def site(near_site: Sites) -> Near:
    found = near_site({"kvm01": NearHost(vms=("vm01", "vm02")), "kvm02": NearHost(vms=())})
    found.dead.add("kvm02")
    vgpumgr(found, "attach", "vm01", "--profile", "8Q", "--on", "kvm01")
    vgpumgr(found, "cordon", "kvm01", "--gpu-id", "0000:81:00.0", "--reason", HOSTILE)
    return found


def test_the_page_is_one_file_that_says_what_list_says_and_takes_no_text_for_markup(site: Near, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    vgpumgr(site, "report", "--html", str(file), code=4)
    page = Page(file.read_text())
    bars = [str(attributes["aria-label"]) for tag, attributes in page.tags if attributes.get("role") == "img"]
    (row,) = document(site, "list", "kvm01")["vgpus"]
    assert f"{row['vm']}, {row['slot']}, {row['type_name']}, 8 GiB, not in use" in bars[0]
    assert HOSTILE in page.text
    assert "kvm02 was not read" in page.text
    assert not {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "form"}
    outside = [value for _, found in page.tags for key, value in found.items() if key in ("src", "href")]
    assert outside == ["data:,"]


def test_markdown_keeps_a_hostile_text_in_its_place(site: Near) -> None:
    text = vgpumgr(site, "report", "--markdown", "-", code=4).out
    assert "| kvm01 | 0000:41:00.0 | A40 | equal-size | 48 GiB | 8 GiB |" in " ".join(text.split())
    assert r"\<img src=x onerror=alert(1)\>\|\[a\](b)" in text
    assert "- **kvm02 was not read**: " in text


def test_rows_have_what_is_free_and_who_has_the_rest(site: Near) -> None:
    gpus = document(site, "report", code=4)["gpus"]
    assert [(gpu["taken_mib"], gpu["free_mib"]) for gpu in gpus] == [(8192, 40960), (0, 49152)]
    assert "cordoned" in gpus[1]["closed"]
    assert vgpumgr(site, "report", "-o", "name", code=4).out == "kvm01/0000:41:00.0\nkvm01/0000:81:00.0\n"


def test_check_writes_no_file(site: Near, tmp_path: Path) -> None:
    site.dead.clear()
    ran = vgpumgr(site, "report", "--html", str(tmp_path / "r.html"), "--check", code=3)
    assert f" bytes to {tmp_path}/r.html" in ran.err
    assert [*tmp_path.glob("*.html")] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--html r.html -o json", "--html does not go with -o, --columns or --sort"),
        ("--markdown - --sort host", "--markdown does not go with -o, --columns or --sort"),
        ("--html - --markdown -", "--html and --markdown both name -"),
        ("--since 401d", "--since: at most 400d"),
    ],
)
def test_what_cannot_be_combined_is_refused_before_a_host_is_read(site: Near, options: str, told: str) -> None:
    assert told in vgpumgr(site, "report", *options.split(), code=2).err
    assert site.links == []


def test_a_file_keeps_its_mode_and_a_new_one_has_that_of_the_umask(site: Near, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch(mode=0o640)
    before = os.umask(0o077)
    try:
        for file in (old, new):
            vgpumgr(site, "report", "--markdown", str(file), code=4)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(file.stat().st_mode) for file in (old, new)] == [0o640, 0o600]
    assert [*tmp_path.glob(".*.new")] == []


def test_a_link_is_written_through(site: Near, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    vgpumgr(site, "report", "--markdown", str(tmp_path / "link"), code=4)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text().startswith("# vGPU report\n")


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(site: Near, tmp_path: Path) -> None:
    ran = vgpumgr(site, "report", "--html", str(tmp_path / "none" / "r.html"), code=2)
    assert "r.html cannot be written: No such file or directory" in ran.err
