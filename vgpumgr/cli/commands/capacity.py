"""The command capacity: what still fits, and what sets of profiles would serve."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from vgpumgr.cli.params import candidates, choosing, rows, wishes
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.profiles import ANSWERS, BOARDS, CATALOGUES, STRANDED
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.context import Context
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.capacity import Answer, Left, Overview, Question
    from vgpumgr.names import OwnerName


@click.command()
@click.argument("profiles", nargs=-1, metavar="[PROFILE]...", shell_complete=candidates.profiles)
@wishes.options
@click.option("--count", type=Whole(1), metavar="N", help="Whether N of each fit together; if not, exit 5.")
@click.option("--for", "owner", metavar="OWNER", help="No more than the quota of OWNER leaves (vgpumgr_quota).")
@click.option("--stranded", is_flag=True, help="The free part of each GPU that usual requests cannot have, and why.")
@click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    metavar="PROFILE,…",
    help="What this set of profiles would serve on empty GPUs, and what it would strand. May be repeated.",
)
@click.option(
    "--weeks",
    type=Whole(0, 520),
    metavar="N",
    help="With --catalogue: count the last N weeks of the journal (default: 4). 0: the requests of the openb trace.",
)
@choosing.on("Only these hosts.")
@rows.options(ANSWERS, BOARDS, STRANDED, CATALOGUES)
@common_options
def capacity(
    settings: Settings,
    *,
    profiles: tuple[str, ...],
    count: int | None,
    owner: str | None,
    stranded: bool,
    catalogues: tuple[str, ...],
    weeks: int | None,
    on: str | None,
    **asked: str | bool | None,
) -> int:
    """Show what still fits: all profiles by board, or, for one profile or wish, how many more on each GPU, or why none.

    \b
      vgpumgr capacity
      vgpumgr capacity 8Q A40-4C
      vgpumgr capacity --gpu 0.25 --on kvm01
      vgpumgr capacity --gpu-memory 8G --count 3
      vgpumgr capacity 8Q --for team-a
      vgpumgr capacity --stranded
      vgpumgr capacity --catalogue 4Q,8Q,24Q --catalogue 8Q,24Q

    Each number is how many attaches in a row would succeed, as long as the placement policy leaves no GPU out. Each
    profile is counted alone: room that one takes is no longer there for another. A host that is not read counts as
    unknown, and sums over it are lower bounds. Read-only.
    """
    from vgpumgr import errors
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.names import parse_owner

    context = build_context(settings)
    hosts = () if on is None else (on,)
    if catalogues or weeks is not None:
        sets = _sets(catalogues, (profiles or None, stranded, owner, count, *asked.values()))
        return _compare(settings, context, hosts, sets, weeks)
    if profiles or any(asked[way] is not None for way in _ways()):
        if stranded:
            raise errors.UsageError("--stranded is about every size", hint="vgpumgr capacity --stranded")
        name = None if owner is None else parse_owner(owner)
        return _answer(settings, context, hosts, _Asked(_questions(context, profiles, asked), count, name))
    if owner is not None or count is not None or any(value not in (None, False) for value in asked.values()):
        raise errors.UsageError("conditions need a wish", hint="give a PROFILE, --gpu-memory, --gpu or --fgpu")
    return _overview(settings, context, hosts, of_gpus=stranded)


def _sets(texts: Sequence[str], others: Iterable[object]) -> list[list[Profile]]:
    """The profiles of each --catalogue. Raises BadName; UsageError without --catalogue, or with another question."""
    from vgpumgr import errors
    from vgpumgr.core.driver.profiles import parse_profile

    if not texts or any(value not in (None, False) for value in others):
        what = "--catalogue stands alone" if texts else "--weeks needs --catalogue"
        raise errors.UsageError(what, hint="only --weeks and --on go with --catalogue")
    return [list(dict.fromkeys(parse_profile(one.strip()) for one in text.split(","))) for text in texts]


def _compare(
    settings: Settings, context: Context, hosts: Sequence[str], sets: Sequence[Sequence[Profile]], weeks: int | None
) -> int:
    from vgpumgr.cli.text import capacity_text
    from vgpumgr.controller import lately, offering
    from vgpumgr.documents import capacity as documents

    weeks = lately.WEEKS if weeks is None else weeks
    fleet, mix, scores = offering.compare(context, hosts, sets, weeks)
    printing.print_rows(settings, CATALOGUES, documents.catalogues(fleet, mix, weeks, scores))
    for line in capacity_text.below_sets(mix, weeks, scores) if settings.for_people else ():
        output.echo(line)
    return output.end(settings, fleet)


class _Asked(NamedTuple):
    questions: Sequence[Question]
    most: int | None
    owner: OwnerName | None


def _ways() -> Sequence[str]:
    from vgpumgr.core.driver import asking

    return asking.WAYS_TO_ASK


def _questions(context: Context, profiles: Sequence[str], asked: Mapping[str, str | bool | None]) -> list[Question]:
    """A question for each profile, or one for the options. Raises UsageError for both, or a host as profile."""
    from vgpumgr import errors
    from vgpumgr.core.report.capacity import Question

    ways = [way for way in _ways() if asked[way] is not None]
    if profiles and ways:
        raise errors.UsageError(f"PROFILE cannot be combined with {wishes.spelt(ways[0])}", hint="give one of them")
    host = next((text for text in profiles if text in context.inventory.hosts), None)
    if host is not None:
        raise errors.UsageError(f"{host} is a host, not a profile", hint=f"vgpumgr capacity --on {host}")
    questions = [wishes.read("capacity", {**asked, "profile": text}, _spelt) for text in dict.fromkeys(profiles)]
    questions += [] if profiles else [wishes.read("capacity", asked)]
    return [Question(wish=wish, conditions=conditions) for wish, conditions in questions]


def _spelt(key: str) -> str:
    return "PROFILE" if key == "profile" else wishes.spelt(key)


def _overview(settings: Settings, context: Context, hosts: Sequence[str], *, of_gpus: bool) -> int:
    from vgpumgr.cli.text import capacity_text
    from vgpumgr.controller import report
    from vgpumgr.core.report import capacity as core
    from vgpumgr.documents import capacity as documents

    fleet = report.look_for_room(context, hosts, lambda view: (core.overview(view), _findings(view.snapshot)))
    sums = core.together(overview for overview, _ in fleet.views)
    totals = core.totals(sums, unread=bool(fleet.errors))
    findings = [finding for _, some in fleet.views for finding in some]
    if of_gpus or not settings.for_people or settings.columns or settings.sorted_by:
        _print_rows(settings, documents.overview(fleet, sums, totals, findings), of_gpus=of_gpus)
    elif sums.rows:
        _print_pivot(settings, sums, totals)
    elif fleet.views:
        output.echo("no vGPU type could be read")
    for line in capacity_text.below(sums, of_gpus=of_gpus) if settings.for_people else ():
        output.echo(line)
    return output.end(settings, fleet, findings)


def _print_rows(settings: Settings, document: Mapping[str, object], *, of_gpus: bool) -> None:
    view, named = (STRANDED, "stranded_mib") if of_gpus else (BOARDS, "fits_now")
    shown = [row for row in view.rows(document) if settings.output != "name" or row[named]]
    printing.print_rows(settings, view, document, shown)


def _print_pivot(settings: Settings, overview: Overview, totals: Mapping[str, Left]) -> None:
    from vgpumgr.cli.text import capacity_text

    tables = capacity_text.pivot(overview, totals, width=output.width(), one_by_one=settings.output == "wide")
    for number, (lines, columns) in enumerate(tables):
        if number:
            output.echo()
        printing.print_table(settings, lines, columns)
    output.progress(settings, capacity_text.FOOT)


def _answer(
    settings: Settings,
    context: Context,
    hosts: Sequence[str],
    asked: _Asked,
) -> int:
    from vgpumgr.controller import report
    from vgpumgr.core.report import capacity as core
    from vgpumgr.documents import capacity as documents

    questions, count, owner = asked
    room = None if owner is None else report.quota_room(context, owner)
    fleet = report.look_for_room(
        context,
        hosts,
        lambda view: (core.of_host(view, questions, context.catalogue), _findings(view.snapshot)),
        owner,
    )
    views = [host for host, _ in fleet.views]
    failed = fleet.errors
    fleet = replace(fleet, errors=tuple({**dict(room.unread if room else ()), **dict(failed)}.items()))
    answers = core.answers(views, failed, questions, room)
    unknown = [core.unknown_profile(one, views, context.catalogue) for one in answers]
    known = [one for one, error in zip(answers, unknown, strict=True) if error is None]
    findings = [*itertools.chain.from_iterable(some for _, some in fleet.views)]
    if settings.for_people:
        printed = known if views else []
        pages = [documents.answers(fleet, [one], findings, count) for one in printed]
        _print_answers(settings, printed, pages, count)
    else:
        document = documents.answers(fleet, known, findings, count)
        rows = _able(document, known, count or 1) if settings.output == "name" else None
        printing.print_rows(settings, ANSWERS, document, rows)
    short = [core.short_of(one, count) for one in known] if count else []
    return output.end(settings, fleet, findings, [*filter(None, unknown), *filter(None, short)])


def _able(document: Mapping[str, object], answers: Sequence[Answer], count: int) -> list[Row]:
    """The rows of the hosts on which `count` fit for at least one question."""
    from vgpumgr.core.report import capacity as core

    hosts = {host for one in answers for host, left in core.by_host(one).items() if core.fits(left, count)}
    return [row for row in ANSWERS.rows(document) if row["host"] in hosts]


def _print_answers(
    settings: Settings, answers: Sequence[Answer], pages: Sequence[Mapping[str, object]], count: int | None
) -> None:
    """Print for people: each question's rows, how many fit in all, and how `count` would be spread."""
    from vgpumgr.cli.text import capacity_text
    from vgpumgr.core.report import capacity as core

    for number, (answer, document) in enumerate(zip(answers, pages, strict=True)):
        if number:
            output.echo()
        if answer.rows:
            printing.print_rows(settings, ANSWERS, document)
        output.echo(capacity_text.total(answer))
        if count is not None and core.fits(answer.left, count) is not False:
            output.echo(capacity_text.together(answer, count))


def _findings(facts: HostSnapshot) -> list[Finding]:
    """Findings about GPUs that can take fewer vGPUs than they should."""
    from vgpumgr.core.evidence import blocked_write, lost
    from vgpumgr.core.placing import places

    return [*blocked_write.findings(facts), *lost.findings(facts), *places.findings(facts)]
