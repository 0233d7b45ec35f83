"""A cordon, as part of change-1.json, plan-1.json, discover-1.json and host-1.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Cordon


def text(cordon: Cordon | None) -> dict[str, object] | None:
    """Why, who, when; None where there is none."""
    return None if cordon is None else {"reason": cordon.reason, "by": cordon.by, "at": cordon.at}
