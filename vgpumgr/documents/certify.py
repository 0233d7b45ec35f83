"""What `host certify` says, as its document: the report, which can be mailed, and which a lab can imitate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr import __version__
from vgpumgr.documents import common
from vgpumgr.documents.scrub import scrub

if TYPE_CHECKING:
    from vgpumgr.controller.results import CertifyResult

SCHEMA: Final = "vgpumgr.certify/1"


def report(result: CertifyResult) -> dict[str, object]:
    """The report, without what belongs to the site."""
    rows = [
        {
            **common.pick(one, "verdict", "gpu", "belief", "expected", "seen"),
            **common.pick(result.table[one.belief], "says"),
            **common.pick(one, "evidence"),
            **common.pick(result.table[one.belief], "needs", "asked", "known"),
        }
        for one in result.answers
    ]
    keys = {"vgpumgr": __version__, "versions": dict(result.versions), "answers": rows, "capture": scrub(result.raw)}
    outcomes = [result.outcome, *([] if result.failure is None else [result.failure.outcome])]
    return common.document(SCHEMA, keys, outcomes, changed=result.outcome.changed)
