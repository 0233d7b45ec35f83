"""The pages of `serve` as Chromium shows them: clean, to scale, and for everybody."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr
from tests.browser.conftest import HOSTILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser.conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.lab]

AXE = Path(__file__).parents[2] / ".cache" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
LOOKS = [(width, scheme) for width in (1440, 390) for scheme in ("light", "dark")]
_ENOUGH = 4.5  # WCAG 2.2, 1.4.3: the contrast of a text of usual size

# The cards of the fleet: what their bars show, and as which share of the bar.
_CARDS = """() => [...document.querySelectorAll(".card")].map(card => {
  const whole = card.querySelector(".bar").getBoundingClientRect().width;
  return {
    host: card.closest(".host").querySelector("h2").textContent,
    head: card.querySelector(".head").textContent,
    parts: [...card.querySelectorAll(".bar > svg")].map(part => ({
      kind: part.getAttribute("class"),
      title: part.querySelector("title").textContent,
      lines: [...part.querySelectorAll("text")].map(one => one.textContent),
      share: (part.querySelector("rect").getBoundingClientRect().width + 2) / whole,
    })),
  };
})"""
# axe-core looks at no text in SVG. The lowest contrast of each kind of part, of its texts with what they are drawn on.
_CONTRASTS = """() => {
  const light = color => {
    const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const lowest = {};
  for (const text of document.querySelectorAll(".bar text")) {
    const fill = getComputedStyle(text.parentElement.querySelector("rect")).fill;
    const under = fill.startsWith("rgb") ? fill : getComputedStyle(document.body).backgroundColor;
    const [a, b] = [light(getComputedStyle(text).fill), light(under)];
    const kind = text.parentElement.getAttribute("class");
    lowest[kind] = Math.min(lowest[kind] ?? 21, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
  }
  return lowest;
}"""
_FOCUS = """() => {
  const [one, style] = [document.activeElement, getComputedStyle(document.activeElement)];
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return [one.getAttribute("href") ?? one.id ?? one.className, seen];
}"""
_REACHABLE = """() => [...document.querySelectorAll("a[href], input, select, button, [tabindex='0']")]
  .map(one => one.getAttribute("href") ?? one.id ?? one.className)"""


@contextmanager
def opened(chromium: Any, site: Site, target: str, *, width: int = 1440, **more: Any) -> Iterator[Any]:
    """A page. Whatever the browser complains of, each dialog, and each request to elsewhere is an error."""
    wrong: list[str] = []

    def refuse(dialog: Any) -> None:
        wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    context = chromium.new_context(base_url=site.address, viewport={"width": width, "height": 900}, **more)
    try:
        page = context.new_page()
        page.on("console", lambda one: wrong.append(f"console: {one.type}: {one.text}"))
        page.on("pageerror", lambda one: wrong.append(f"script: {one}"))
        page.on("dialog", refuse)
        page.on(
            "request", lambda one: wrong.append(one.url) if not one.url.startswith((site.address, "data:")) else None
        )
        page.on("requestfailed", lambda one: wrong.append(f"{one.url}: {one.failure}"))
        page.goto(target)
        yield page
        page.wait_for_load_state("networkidle")
    finally:
        context.close()
    expected = "console: error: Failed to load resource: the server responded with a status of 404 (Not Found)"
    assert [one for one in wrong if one != expected or "nobody" not in target] == [], target


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_no_page_complains_reaches_outside_or_overflows(chromium: Any, site: Site, width: int, scheme: str) -> None:
    for target in site.pages:
        with opened(chromium, site, target, width=width, color_scheme=scheme) as page:
            found, given = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert (found <= given, given) == (True, width), target
            assert page.locator("h1").is_visible(), target


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_nobody_is_shut_out(chromium: Any, site: Site, width: int, scheme: str) -> None:
    """What axe-core finds; it can only be put into a page whose policy does not count."""
    for target in site.pages:
        with opened(chromium, site, target, width=width, color_scheme=scheme, bypass_csp=True) as page:
            page.add_script_tag(path=AXE)
            result = page.evaluate("() => axe.run()")
            assert len(result["passes"]) > 5, target
            bad = [
                f"{one['id']}: {node['html']}: {node['failureSummary']}"
                for one in result["violations"]
                if one["impact"] in ("serious", "critical")
                for node in one["nodes"]
            ]
            assert bad == [], target
            low = {kind: ratio for kind, ratio in page.evaluate(_CONTRASTS).items() if ratio < _ENOUGH}
            assert low == {}, target


@pytest.mark.parametrize("width", [1440, 390])
def test_each_bar_is_what_report_says(chromium: Any, site: Site, width: int) -> None:
    gpus = json.loads(vgpumgr(site.lab, "report", "-o", "json", code=4).out)["gpus"]
    with opened(chromium, site, "/", width=width) as page:
        cards = page.evaluate(_CARDS)
        assert "kvm02 was not read" in page.locator("main").inner_text()
    assert {one["kind"] for gpu in gpus for one in gpu["blocks"]} >= {"used", "idle", "foreign", "reserved", "free"}
    assert len(cards) == len(gpus)
    for card, gpu in zip(cards, gpus, strict=True):
        assert (card["host"], gpu["gpu"] in card["head"], gpu["board"] in card["head"]) == (gpu["host"], True, True)
        for part, block in zip(card["parts"], gpu["blocks"], strict=True):
            assert part["kind"] == block["kind"]
            assert part["share"] == pytest.approx(block["mib"] / gpu["mib"], abs=0.01), (width, block)
            said = [text for text in (block["name"], block["type_name"]) if text]
            assert [text for text in said if text not in part["title"]] == []
            assert part["lines"][: len(said)] == said or block["kind"] in ("free", "stranded", "foreign", "instance")


def test_the_filter_leaves_the_cards_with_the_text(chromium: Any, site: Site) -> None:
    with opened(chromium, site, "/") as page:
        field, cards = page.get_by_role("searchbox"), page.locator(".card:visible")
        every = cards.all_inner_texts()
        for text, count in (("VM02", 1), ("a40", 2), ("kvm03", 1), ("no such text", 0), ("", len(every))):
            field.fill(text)
            assert (cards.count(), page.locator("#none").is_visible()) == (count, count == 0), text
            assert [
                one for one in page.locator(".host:visible").all_inner_texts() if text.lower() not in one.lower()
            ] == []


def test_tab_reaches_every_link_and_field_and_focus_is_seen(chromium: Any, site: Site) -> None:
    for target in site.pages:
        with opened(chromium, site, target) as page:
            reached: list[list[Any]] = []
            wanted = page.evaluate(_REACHABLE)
            for _ in wanted:
                page.keyboard.press("Tab")
                reached.append(page.evaluate(_FOCUS))
            assert reached == [[one, True] for one in wanted], target


def test_without_scripts_the_pages_are_complete(chromium: Any, site: Site) -> None:
    for target in site.pages:
        texts = []
        for scripts in (True, False):
            with opened(chromium, site, target, java_script_enabled=scripts) as page:
                age, text = page.locator("#age"), page.locator("body").inner_text()
                texts.append(text.replace(age.inner_text(), "AGE") if age.count() else text)
                assert page.get_by_role("searchbox").count() == (scripts and target == "/"), "a field that does nothing"
        assert texts[0].replace("Only GPUs with this text:", "").split() == texts[1].split(), target


def test_who_asks_for_half_a_gpu_is_told_where_it_would_be(chromium: Any, site: Site) -> None:
    (place,) = json.loads(vgpumgr(site.lab, "place", "--gpu", "0.5", "-o", "json", code=4).out)["places"]
    with opened(chromium, site, "/ask") as page:
        page.get_by_label("How much").fill("0.5")
        page.get_by_role("button", name="Ask").click()
        said = page.locator(".answer").inner_text()
        assert f"{place['type_name']} on {place['host']}, GPU {place['gpu']}." in said
        assert "vgpumgr place --gpu 0.5" in page.locator("main").inner_text()


def test_a_hostile_name_is_text(chromium: Any, site: Site) -> None:
    with opened(chromium, site, "/") as page:
        page.get_by_role("link", name=HOSTILE).click()
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.title() == f"{HOSTILE} · vgpumgr"
        assert page.locator("img").count() == 0
