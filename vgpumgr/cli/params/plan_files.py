"""--out FILE saves a plan; --plan FILE carries out exactly that plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vgpumgr import errors, files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.slot.kept import KeptPlan

_PATH = click.Path(dir_okay=False, allow_dash=False)

out_option = click.option("--out", type=_PATH, metavar="FILE", help="With --check: save the plan in FILE, for --plan.")
plan_option = click.option(
    "--plan",
    "plan_file",
    type=_PATH,
    metavar="FILE",
    help="Carry out the plan saved in FILE; refuse if anything it was based on has changed.",
)


def guard_out(settings: Settings, out: str | None) -> None:
    """Raises UsageError if --out is given without --check: a run that saves its plan changes nothing."""
    if out is not None and not settings.check:
        raise errors.UsageError("--out saves a plan and changes nothing", hint="add --check, or omit --out")


def write(out: str, document: Mapping[str, object], *, option: str = "--out") -> None:
    """Save a document in the file `out`. Raises UsageError, which names `option`, if the file cannot be written."""
    try:
        files.replace(Path(out), f"{json.dumps(document, indent=1)}\n".encode())
    except OSError as error:
        raise errors.UsageError(
            f"{option}: {out} cannot be written: {error.strerror}", hint="choose another file"
        ) from error


def read(path: str | None) -> KeptPlan | None:
    """The plan in the file; None without a path. Raises UsageError if the file has no plan."""
    if path is None:
        return None
    from vgpumgr.core.slot.kept import KeptPlan
    from vgpumgr.documents.change import PLAN

    try:
        document = json.loads(files.read_bytes(path))
        if document["schema"] != PLAN:
            raise errors.UsageError(
                f"--plan: {path} is {document['schema']!r}, and not a plan ({PLAN})",
                hint="`--check --out FILE` makes one",
            )
        result = document["result"]
        if "vms" in result:
            hosts = [vm["host"] for vm in result["vms"] if vm["host"] is not None]
        else:
            hosts = [host["name"] for host in result["hosts"]] if "hosts" in result else [result["host"]]
        unread = [str(error["host"]) for error in document.get("errors", ()) if error["host"] is not None]
        return KeptPlan(
            where=path,
            fingerprint=str(document["fingerprint"]),
            steps=tuple(dict(step) for step in document["plan"]),
            hosts=tuple(dict.fromkeys([*map(str, hosts), *unread])),
        )
    except OSError as error:
        raise errors.UsageError(
            f"--plan: {path} cannot be read: {error.strerror}", hint="use a file that --out wrote"
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise errors.UsageError(
            f"--plan: {path} is not a plan: {error}", hint="`--check --out FILE` makes one"
        ) from error
