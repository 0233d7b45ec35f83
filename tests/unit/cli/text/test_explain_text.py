"""What explain says of one GPU, for people."""

from __future__ import annotations

from vgpumgr.cli.text import explain_text
from vgpumgr.core.report.explained import GpuAnswer, Passed
from vgpumgr.names import HostName, PciAddress

HOLDS_12C = "holds 12C (vm03): equal-size mode takes only 12 GiB types until it is empty"


def why(*passed: tuple[str, str]) -> object:
    answer = GpuAnswer(
        host=HostName("kvm01"),
        gpu=PciAddress("0000:41:00.0"),
        board="A40",
        mode=None,
        scheduler=None,
        allocated=None,
        rank=None,
        type_name=None,
        grant=None,
        why="further from the wish",
        passed=tuple(Passed(type_name=name, why=reason) for name, reason in passed),
    )
    return explain_text.row(answer)["why"]


def test_a_reason_is_said_once_with_all_types_it_stands_against() -> None:
    assert why() == "further from the wish"
    assert why(("A40-6C", HOLDS_12C)) == f"further from the wish; not A40-6C: {HOLDS_12C}"
    assert (
        why(("A40-6C", HOLDS_12C), ("A40-8C", HOLDS_12C)) == f"further from the wish; not A40-6C or A40-8C: {HOLDS_12C}"
    )
    assert why(("A40-4C", "full"), ("A40-6C", HOLDS_12C), ("A40-8C", "full"), ("A40-9C", "full")) == (
        f"further from the wish; not A40-4C, A40-8C or A40-9C: full; not A40-6C: {HOLDS_12C}"
    )
