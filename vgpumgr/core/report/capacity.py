"""What still fits: how many more of each profile, or how often a wish would be granted, per GPU and over all hosts.

Each number stands alone: one profile's vGPUs take room from the others'. A host or GPU that could not be read has no
number, and a sum over it is a lower bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import instances, resolve
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.core.report import stranded
from vgpumgr.core.slot import how_many
from vgpumgr.errors import NoCapacity, UnknownProfile
from vgpumgr.names import nearest
from vgpumgr.wording import Command, Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.quota_room import QuotaRoom
    from vgpumgr.core.report.stranded import Stranded
    from vgpumgr.core.slot.how_many import Granted
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName, PciAddress
    from vgpumgr.wording import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """How many more fit. `at_least`: something could not be read, so there may be more. `fits_now` None: unknown."""

    fits_now: int | None
    at_least: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardRow:
    """A profile on all `gpus` GPUs of a board. `max`: how many an empty one takes in equal-size mode; None: unknown."""

    profile: str
    board: str
    type_name: str
    framebuffer_mib: int | None
    max: int | None
    gpus: int
    left: Left


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedGpu:
    """A GPU that takes no vGPU of any type now. `is_unknown`: nobody can tell whether it takes one."""

    host: HostName
    gpu: PciAddress
    board: str
    why: str
    is_unknown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What fits on one host, or on all together.

    A GPU in MIG mode counts for MIG-backed types, any other one for time-sliced types.
    """

    rows: tuple[BoardRow, ...]
    closed: tuple[ClosedGpu, ...]
    stranded: tuple[Stranded, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A wish with its conditions."""

    wish: Wish
    conditions: Conditions

    @property
    def text(self) -> str:
        """`8Q`, `--gpu 0.25`."""
        if not isinstance(self.wish, profiles.ByProfile):
            return asking.describe(self.wish, self.conditions)
        conditions = asking.attributes(self.conditions).items()
        options = (Option(f"--{key.replace('_', '-')}", value) for key, value in conditions)
        return joined(" ", (self.wish.profile.text, *options))

    @property
    def described(self) -> Message:
        """The wish and its conditions as options: `--gpu 0.2 --max-waste 30`."""
        return asking.describe(self.wish, self.conditions)

    def asks(self, verb: str) -> Command:
        """The command with this verb that asks the same."""
        return Command("vgpumgr", verb, *profiles.options(self.wish), *asking.options(self.conditions))


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRow:
    """One question on one GPU, or on a whole host that was not read: then `gpu` and its fields are None.

    `type_name`: what the next attach would get there. `why`: why none fits, or why that is unknown.
    """

    question: Question
    host: HostName
    gpu: PciAddress | None
    board: str | None
    mode: Mode | None
    type_name: str | None
    fits_now: int | None
    granted: tuple[Granted, ...]
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnswers:
    """The answers of one host. `profiles`: the names of its types, short and in full."""

    host: HostName
    rows: tuple[GpuRow, ...]
    profiles: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question on all hosts. `room`: what the owner's quota leaves; None: as much as fits."""

    question: Question
    rows: tuple[GpuRow, ...]
    left: Left
    room: QuotaRoom | None = None


def overview(view: HostView) -> Overview:
    """How many more of each profile fit on a host's GPUs."""
    barred = sharing.barred_functions(view)
    rows = [row for gpu in view.snapshot.gpus for row in _of_gpu(view, gpu, barred)]
    closed = tuple(
        ClosedGpu(
            host=view.snapshot.host, gpu=gpu.pci, board=_board(gpu), why=shut.why or "", is_unknown=shut.count is None
        )
        for gpu in view.snapshot.gpus
        if (shut := how_many.closed(view, gpu, barred)) is not None
    )
    return together([Overview(rows=tuple(rows), closed=closed, stranded=stranded.of_host(view))])


def together(parts: Iterable[Overview]) -> Overview:
    """Add up the overviews of hosts by profile and board, the smallest profile first."""
    parts = tuple(parts)
    by_key: dict[tuple[str, str], BoardRow] = {}
    for row in (row for part in parts for row in part.rows):
        other = by_key.get((row.profile, row.board))
        by_key[row.profile, row.board] = row if other is None else _added(other, row)
    rows = sorted(by_key.values(), key=lambda row: (row.framebuffer_mib or 0, row.profile, row.board))
    closed = sorted((one for part in parts for one in part.closed), key=lambda one: (one.host, one.gpu))
    lost = sorted((one for part in parts for one in part.stranded), key=lambda one: (one.host, one.gpu))
    return Overview(rows=tuple(rows), closed=tuple(closed), stranded=tuple(lost))


def total(parts: Iterable[Left], *, more: bool) -> Left:
    """The sum of these numbers. `more`: something else could not be read, so more may fit."""
    parts = tuple(parts)
    count = sum(part.fits_now or 0 for part in parts)
    at_least = more or any(part.at_least for part in parts)
    return Left(fits_now=None if at_least and not count else count, at_least=at_least)


def totals(found: Overview, *, unread: bool) -> dict[str, Left]:
    """How many more of each profile fit, on all boards together. `unread`: there are hosts that could not be read."""
    more = unread or any(one.is_unknown for one in found.closed)
    by_profile: dict[str, list[Left]] = {}
    for row in found.rows:
        by_profile.setdefault(row.profile, []).append(row.left)
    return {profile: total(parts, more=more) for profile, parts in by_profile.items()}


def of_host(view: HostView, questions: Sequence[Question], catalogue: Catalogue) -> HostAnswers:
    """The answers to each question, for every GPU of a host that could ever serve its wish."""
    barred = sharing.barred_functions(view)
    kinds = [kind for gpu in view.snapshot.gpus for kind in (gpu.types or {}).values()]
    return HostAnswers(
        host=view.snapshot.host,
        rows=tuple(row for question in questions for row in _answers(view, question, barred, catalogue)),
        profiles=frozenset(name for kind in kinds for name in (kind.short, kind.type_name)),
    )


def answers(
    hosts: Iterable[HostAnswers],
    unread: Iterable[tuple[HostName, VgpumgrError]],
    questions: Iterable[Question],
    room: QuotaRoom | None = None,
) -> tuple[Answer, ...]:
    """The answer to each question on all hosts. A host that is in `unread`, but not in `hosts`, has no number.

    `room`: what the owner's quota leaves; no answer is more than that.
    """
    hosts = tuple(hosts)
    host_names = {host.host for host in hosts}
    failures = [(name, error.what) for name, error in unread if name not in host_names]
    result: list[Answer] = []
    for question in questions:
        rows = [row for host in hosts for row in host.rows if row.question == question]
        rows += [_unread_row(question, name, why) for name, why in failures]
        rows = [_within(row, room) for row in rows] if room is not None else rows
        rows.sort(key=lambda row: (row.host, row.gpu or ""))
        result.append(Answer(question=question, rows=tuple(rows), left=_sum(rows, room), room=room))
    return tuple(result)


def by_host(answer: Answer) -> dict[HostName, Left]:
    """How many more fit on each host, on its GPUs together."""
    by_host: dict[HostName, list[GpuRow]] = {}
    for row in answer.rows:
        by_host.setdefault(row.host, []).append(row)
    return {host: _sum(rows, answer.room) for host, rows in by_host.items()}


def fits(left: Left, count: int) -> bool | None:
    """Whether `count` fit together; None: unknown."""
    return True if (left.fits_now or 0) >= count else None if left.at_least else False


def short_of(answer: Answer, count: int) -> NoCapacity | None:
    """The error if it is certain that `count` do not fit together; else None."""
    if fits(answer.left, count) is not False:
        return None
    return NoCapacity(
        say("{} of {} do not fit together: there is room for {}", count, answer.question.text, answer.left.fits_now),
        details=[f"{host}: room for {left.fits_now}" for host, left in by_host(answer).items()],
        hint="`vgpumgr usage --idle 7d` shows which vGPUs do nothing",
    )


def unknown_profile(answer: Answer, hosts: Sequence[HostAnswers], catalogue: Catalogue) -> UnknownProfile | None:
    """The error if no profile has this name: all hosts were read, and neither they nor NVIDIA's list have it."""
    wish = answer.question.wish
    if answer.rows or not isinstance(wish, profiles.ByProfile) or catalogue.names_type(wish.profile):
        return None
    names = {name for host in hosts for name in host.profiles}
    near = nearest(wish.profile.text, names)
    who = f"these {len(hosts)} hosts" if len(hosts) > 1 else hosts[0].host
    return UnknownProfile(
        say("no GPU of {} has a profile {}", who, repr(wish.profile.text)),
        hint=f"did you mean {near}? `vgpumgr profiles` lists them"
        if near
        else "`vgpumgr profiles` lists what there is",
    )


def nobody_has(
    views: Iterable[HostView], unread: Iterable[tuple[HostName, VgpumgrError]], question: Question, catalogue: Catalogue
) -> UnknownProfile | None:
    """The error of unknown_profile for one wish at these hosts, or None."""
    hosts = [of_host(view, [question], catalogue) for view in views]
    (answer,) = answers(hosts, unread, [question])
    return unknown_profile(answer, hosts, catalogue)


def _sum(rows: Sequence[GpuRow], room: QuotaRoom | None) -> Left:
    """How many more fit on these GPUs together, and within the quota."""
    left = total(map(_left, rows), more=False)
    if room is None or left.fits_now is None:
        return left
    count = room.most(granted for row in rows for granted in row.granted)
    return Left(fits_now=count, at_least=left.at_least and count == left.fits_now)


def _within(row: GpuRow, room: QuotaRoom) -> GpuRow:
    granted = room.first(row.granted)
    count = sum(one.count for one in granted)
    if not row.fits_now or (count == row.fits_now and not room.unread):
        return row
    if room.unread and count:
        return replace(row, fits_now=None, granted=(), why=room.why_unknown)
    return replace(row, fits_now=count, granted=granted, why=None if count else room.why_none)


def _left(row: GpuRow) -> Left:
    return Left(fits_now=row.fits_now, at_least=row.fits_now is None)


def _unread_row(question: Question, host: HostName, why: str) -> GpuRow:
    return GpuRow(
        question=question,
        host=host,
        gpu=None,
        board=None,
        mode=None,
        type_name=None,
        fits_now=None,
        granted=(),
        why=say("not read: {}", why),
    )


def _answers(view: HostView, question: Question, barred: Barred, catalogue: Catalogue) -> Iterator[GpuRow]:
    ask = resolve.Ask.at_host(view, question.wish, question.conditions)
    for gpu in sorted(view.snapshot.gpus, key=lambda gpu: gpu.pci):
        answer = how_many.how_many(view, gpu, ask, barred)
        if answer.cause is Cause.NO_SUCH_TYPE or (not gpu.types and _is_another_board(gpu, question.wish, catalogue)):
            continue
        yield GpuRow(
            question=question,
            host=view.snapshot.host,
            gpu=gpu.pci,
            board=_board(gpu),
            mode=gpu.mode,
            type_name=answer.granted[0].type_name if answer.granted else None,
            fits_now=answer.count,
            granted=answer.granted,
            why=answer.why,
        )


def _is_another_board(gpu: Gpu, wish: Wish, catalogue: Catalogue) -> bool:
    """Whether a GPU that shows no types is a board that NVIDIA lists without this profile."""
    if not isinstance(wish, profiles.ByProfile) or gpu.name is None:
        return False
    name = gpu.name.removeprefix("NVIDIA ")
    types = [row for row in catalogue.types if row.board_name.removeprefix("NVIDIA ") == name]
    profile = wish.profile
    return bool(types) and not any(resolve.is_named(row.name, row.board, profile) for row in types)


def _of_gpu(view: HostView, gpu: Gpu, barred: Barred) -> Iterator[BoardRow]:
    left = how_many.of_types(view, gpu, barred)
    for kind in (gpu.types or {}).values():
        if instances.is_mig_backed(kind) != gpu.rules.mig_backed:
            continue
        count = left[kind.id]
        yield BoardRow(
            profile=kind.short,
            board=_board(gpu),
            type_name=kind.type_name,
            framebuffer_mib=kind.size_mib,
            max=kind.max,
            gpus=1,
            left=Left(fits_now=count, at_least=count is None),
        )


def _added(one: BoardRow, other: BoardRow) -> BoardRow:
    return replace(
        one,
        max=max((most for most in (one.max, other.max) if most is not None), default=None),
        gpus=one.gpus + other.gpus,
        left=total((one.left, other.left), more=False),
    )


def _board(gpu: Gpu) -> str:
    return gpu.board or gpu.name or "?"
