"""What `explain` prints, read as a new user would: each word is in docs/words.md, or everyday English."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.unit.core import builders
from vgpumgr.cli.rows.gpus import EXPLAIN, MECHANISMS
from vgpumgr.controller.results import Fleet
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking
from vgpumgr.core.gpu import mode_plan, size_mode
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.report import explained
from vgpumgr.documents import offer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView

WORDS = (Path(__file__).parents[2] / "docs" / "words.md").read_text(encoding="utf-8")

# Words that mean what they mean everywhere. None of them is a term of GPUs, of virtual machines or of ours.
_EVERYDAY = """
    a address all alone among an and are as at be between can closest empty equal every first fit fits
    fixed for free from full further gib give good hardware has holds in inventory is it its largest less lower mib
    more most no none not now of off offers on one only or own part place read requested running sees shared some such
    take taken takes than that this to until what which why would yes
"""
EVERYDAY = frozenset(_EVERYDAY.split())
_NAMES = re.compile(
    r"[0-9a-f]{4}:[0-9a-f:.]+|kvm\d+|vm\d+|[A-Z]+\d+[A-Z]*(?:-[0-9A-Z]+)+|\b(?:NVIDIA|A40|A100|L40S)\b|\b\d+[ABCQ]\b|\b[ABCQ]\b"
)
_PARTS = re.compile(r"[A-Za-z][A-Za-z-]*")


def known() -> set[str]:
    """The words of the page's terms: what is bold, slanted or code in it, in one number or the other."""
    terms = re.findall(r"\*\*([^*]+)\*\*|\*([^*]+)\*|`([^`]+)`", WORDS)
    found = {word.lower() for term in terms for part in term for word in _PARTS.findall(part)}
    return found | {f"{word}s" for word in found} | {word.removesuffix("y") + "ies" for word in found}


def gpu(board: str, at: int) -> Gpu:
    return builders.gpu(MDEV_VF, board, f"0000:{at}1:00.0", vfs=4)


def with_one(view: HostView, vm: str, profile: str, card: int) -> HostView:
    """One more vGPU, on that GPU of the host."""
    plan = builders.plan_attach(view, vm, profile, gpus=(str(view.snapshot.gpus[card].uuid),))
    return simulate.apply(view, plan.steps)


def views() -> Iterator[HostView]:
    """An empty host, one of two equal GPUs, one in which something is in the way of everything, and some of which little is known."""
    yield builders.host(gpu("A40", 4), gpu("L40S", 8))
    yield builders.host(gpu("A40", 1), gpu("A40", 2))
    boards = ("A40", "A40", "A40", "A100", "L40S")
    there = builders.host(*(gpu(board, at) for at, board in enumerate(boards, 1)), vms=12)
    for vm, profile, card in (("vm01", "8Q", 0), ("vm02", "48Q", 1), *((f"vm{at:02}", "4Q", 4) for at in range(3, 7))):
        there = with_one(there, vm, profile, card)
    mixed = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid("0000:31:00.0"), mode="mixed-size")
    there = with_one(simulate.apply(there, size_mode.plan_mode(there, mixed).steps), "vm10", "24C", 2)
    yield there
    yield replace(there, fgpu_per_gpu={"A40": 2})
    yield builders.without_vgpus(there, "SR-IOV is off")
    yield builders.change_gpus(there, lambda card: replace(card, types=None))


WISHES: tuple[dict[str, str | bool], ...] = (
    {"gpu_memory": "5G"},
    {"profile": "4Q"},
    {"profile": "48Q"},
    {"gpu_memory": "200G"},
    {"gpu_memory": "47G", "usable": True},
    {"gpu": "0.2", "max_waste": "10"},
    {"gpu": "1", "series": "Q"},
    {"fgpu": "0.5"},
    {"fgpu": "5"},
    {"gpu_memory": "4G", "compute": "fixed-share"},
    {"gpu_memory": "4G", "only": "mig"},
    {"mig_profile": "1g.5gb"},
)


@cache
def printed() -> frozenset[str]:
    """Everything that the two tables have: their heads, the cells, and the help."""
    return frozenset(_printed())


def _printed() -> Iterator[str]:
    for column in (*EXPLAIN.columns, *MECHANISMS.table):
        yield column.head
    for view in views():
        for given in WISHES:
            wish, conditions = asking.read(given, about="explain", spelt=str)
            answer = explained.of_host(view, explained.Asked(wish=wish, conditions=conditions))
            document = offer.explain(Fleet(views=(answer,), errors=()), "", explained.compare([answer]))
            for view_of, columns in ((EXPLAIN, EXPLAIN.columns), (MECHANISMS, MECHANISMS.table)):
                yield from (column.text(row) for row in view_of.rows(document) for column in columns)


def test_every_word_is_a_term_of_ours_or_plain_english() -> None:
    words = {word.lower(): line for line in printed() for word in _PARTS.findall(_NAMES.sub(" ", line))}
    there = known() | EVERYDAY
    assert {word: line for word, line in words.items() if word not in there} == {}


def test_the_everyday_words_are_used_and_are_no_terms() -> None:
    """So that the list does not become a hole."""
    used = {word.lower() for line in printed() for word in _PARTS.findall(_NAMES.sub(" ", line))}
    assert sorted(EVERYDAY - used) == []
    assert sorted(EVERYDAY & known()) == []
