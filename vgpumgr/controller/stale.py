"""What another try cannot mend is no exit 6: a step was refused as changed, and what is read says the very same as before.

Exit 6 means that the same command may well end otherwise, and docs tell cron to try again. So the host is looked at once
more under the same lock: where the same plan comes out, the next run would be refused likewise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.plan.changes import Step


def judged(
    error: errors.StalePlan, host: str, steps: Sequence[Step], again: Callable[[], Sequence[Step]]
) -> errors.VgpumgrError:
    """The error as it was, or Unsure (5) where `again`, a plan from a fresh look, has the same steps."""
    try:
        same = list(again()) == list(steps)
    except Exception:  # noqa: BLE001 -- the fresh look says it in its own words to whoever runs the command again
        return error
    if not same:
        return error
    return errors.Unsure(
        f"{error.message}; nothing has changed on the host since, so the same command would fail the same way",
        details=error.details,
        hint=f"`vgpumgr discover {host}` and `vgpumgr list {host}` show what is read; what differs has to be mended by hand",
    )
