"""What vgpumgr believes of NVIDIA's driver, and only a host with hardware can confirm: vgpumgr/data/beliefs.csv."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from vgpumgr.names import PciAddress

READ: Final = "read"
EMPTY_GPU: Final = "empty GPU"
PERSON: Final = "person"
Verdict = Literal["holds", "differs", "unanswered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """A belief. `needs`: whether reading, an empty GPU or a person answers it. `frameworks`: empty if it is about all.

    `asked`: how. `known`: who says so today. `expected`: each answer is one of these, unless it depends on the GPU.
    """

    id: str
    needs: str
    frameworks: tuple[str, ...]
    says: str
    asked: str
    known: str
    expected: tuple[str, ...]

    def is_of(self, framework: str | None) -> bool:
        """Whether the belief is about GPUs of that framework."""
        return not self.frameworks or framework in self.frameworks

    def answer(self, gpu: PciAddress, seen: Collection[str], evidence: str, expected: str | None = None) -> Answer:
        """A GPU's answer; unanswered if nothing was `seen`. `expected`: for this GPU, in place of the belief's own."""
        return Answer(
            gpu=gpu,
            belief=self.id,
            expected=self.expected if expected is None else (expected,),
            seen=tuple(sorted(seen)) or None,
            evidence=evidence,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a GPU said of a belief. Each of `seen` must be one of `expected`. `seen` None: unanswered, see `evidence`.

    `evidence`: what was read or done, and what came of it; or why there is no answer.
    """

    gpu: PciAddress
    belief: str
    expected: tuple[str, ...]
    seen: tuple[str, ...] | None
    evidence: str

    @property
    def verdict(self) -> Verdict:
        if self.seen is None:
            return "unanswered"
        return "holds" if set(self.seen) <= set(self.expected) else "differs"


_LISTS = (("frameworks", None), ("expected", "|"))  # the columns with several values, and what separates them


@cache
def parse(text: str) -> Mapping[str, Belief]:
    """The beliefs of a table, by id, in its order."""
    import csv  # noqa: PLC0415 -- only certify reads the table

    rows = csv.DictReader(text.splitlines())
    return {row["id"]: Belief(**{**row, **{name: tuple(row[name].split(by)) for name, by in _LISTS}}) for row in rows}  # type: ignore[arg-type]


def complete(
    table: Mapping[str, Belief],
    answers: Iterable[Answer],
    gpus: Mapping[PciAddress, str | None],
    why: Mapping[str, str],
) -> tuple[Answer, ...]:
    """An answer for each belief about each GPU (address → framework), in the table's order.

    A belief without an answer is unanswered. `why`: the reason, by what the belief needs (Belief.needs).
    """
    found = {(one.gpu, one.belief): one for one in answers}
    return tuple(
        found.get((gpu, each.id)) or Answer(gpu=gpu, belief=each.id, expected=(), seen=None, evidence=why[each.needs])
        for gpu, framework in gpus.items()
        for each in table.values()
        if each.is_of(framework)
    )
