"""`vgpumgr history`: the journal as a table or as JSON. It contacts no host and writes nothing."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr import names
from vgpumgr.cli.params import choosing, rows, stored
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.runs import HISTORY
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.store.journal import Journal
    from vgpumgr.store.journal_entry import JournalEntry, Question

_ALL = 1_000_000  # runs; the journal keeps fewer
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class _Since(click.ParamType[datetime.datetime]):
    """What --since takes: `7d`, `12h`, `30m`, or a date, also with a time. A date without an offset is local time."""

    name = "since"

    def convert(
        self, value: str | datetime.datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime.datetime:
        if isinstance(value, datetime.datetime):
            return value
        try:
            if match := re.fullmatch(r"(\d{1,6})([smhdw])", value.strip()):
                ago = datetime.timedelta(seconds=int(match[1]) * _UNITS_S[match[2]])
                return datetime.datetime.now(datetime.UTC) - ago
            return datetime.datetime.fromisoformat(value.strip()).astimezone(datetime.UTC)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is neither an age such as 7d, 12h or 30m, nor a date such as 2026-11-21", param, ctx)


@click.command()
@choosing.vms_or_hosts()
@click.option(
    "--limit",
    type=Whole(1, 1_000_000),
    default=20,
    show_default=True,
    metavar="N",
    help="Show at most the newest N.",
)
@click.option(
    "--since",
    type=_Since(),
    metavar="AGE|DATE",
    help="Show runs no older than this (7d, 12h, 30m), or since a date (2026-11-21).",
)
@rows.options(HISTORY)
@common_options
def history(settings: Settings, *, chosen: tuple[str, ...], limit: int, since: datetime.datetime | None) -> int:
    """Who changed what, when and why, and the outcome; newest first.

    \b
      vgpumgr history
      vgpumgr history vm01 --since 7d
      vgpumgr history kvm02 'web*' -o json

    A VM is found by its name or UUID, and also by earlier names. A run that is "not ended" was killed or is still
    going. The journal is history only: deleting it does not change the desired state.
    """
    from vgpumgr.controller import environment
    from vgpumgr.documents import offline as documents
    from vgpumgr.store.journal_entry import Question

    journal = environment.open_journal(lambda text: output.print_warning(settings, text))
    # Not strftime: its %Y has fewer than four digits before the year 1000, and times are compared as texts.
    begin = since.isoformat(timespec="seconds").replace("+00:00", "Z") if since else None
    question = Question(limit=limit + 1, since=begin)
    # Newest first: in a pager or with head, the top is what the reader sees.
    runs = _chosen(settings, journal, chosen, question) if chosen else journal.runs(question)
    more, runs = len(runs) > limit, runs[:limit]
    if not runs and settings.for_people:
        about = f" about {' '.join(chosen)}" if chosen else ""
        later = " since then" if since else ""
        output.echo(
            f"no run{about}{later} in {journal.path}" if journal.path.exists() else f"no journal yet ({journal.path})"
        )
        return 0
    printing.print_rows(settings, HISTORY, documents.history(journal.path, runs))
    if more:
        output.progress(settings, f"newest {limit}; `--limit` shows more")
    return 0


def _chosen(settings: Settings, journal: Journal, texts: Sequence[str], question: Question) -> Sequence[JournalEntry]:
    """The runs of the VMs and hosts that the texts name. Raises UnknownName for a text that names none."""
    from vgpumgr.controller import environment
    from vgpumgr.store.sql.names import known

    runs_by_id: dict[int, JournalEntry] = {}
    missing = False
    for text in texts:
        uuid = names.as_uuid(text)
        runs = journal.runs(replace(question, name=None if uuid else text, vm_uuid=uuid))
        missing |= not runs
        runs_by_id.update((run.id, run) for run in runs)
    if missing or not all(map(stored.is_plain, texts)):
        has = known(environment.store_path())
        vms, roster = stored.known(settings, [*has.vms, *has.uuids], has.hosts)
        choice = stored.chosen(texts, vms, roster, "journal")
        every = journal.runs(replace(question, limit=_ALL))
        runs_by_id |= {run.id: run for run in every if choice.shows(run.intent.host, run.intent.vm, run.intent.vm_uuid)}
    return sorted(runs_by_id.values(), key=lambda run: -run.id)[: question.limit]
