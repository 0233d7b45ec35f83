"""Avoids exit 6 where a retry cannot help: a step was refused as outdated, yet the host's facts are the same.

Exit 6 means that the same command may succeed later, and the docs tell cron to retry. So the host is read again
under the same lock: if the same plan results, the next run would be refused in the same way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.commands import command
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.step import Step


def judged(
    error: errors.StalePlan, host: str, steps: Sequence[Step], again: Callable[[], Sequence[Step]]
) -> errors.VgpumgrError:
    """The error unchanged; or Unsure (5) if `again`, which reads and plans again, returns the same steps."""
    try:
        same = list(again()) == list(steps)
    except Exception:  # noqa: BLE001 -- repeating the command will report this error itself
        return error
    if not same:
        return error
    return errors.Unsure(
        say("{}; nothing has changed on the host since, so the same command would fail the same way", error.message),
        details=error.details,
        hint=say(
            "`{}` and `{}` show what was read; the difference has to be corrected by hand",
            command("discover", host),
            command("list", host),
        ),
    )
