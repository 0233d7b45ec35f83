"""What a wish came to, for people: asked, granted, waste, and what the guest sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import Grant


def granted(grant: Grant) -> str:
    """`asked 9.6 GiB, 20 % waste, guest sees at least 10.5 GiB`; only the last part if there is no waste."""
    sees = f"guest sees at least {gib(grant.guest_mib)}"
    if grant.asked_mib == grant.framebuffer_mib:
        return sees
    return f"asked {gib(grant.asked_mib)}, {grant.waste_pct:g} % waste, {sees}"


def gib(mib: float) -> str:
    return f"{mib / 1024:.3g} GiB" if mib >= 1024 else f"{mib:g} MiB"
