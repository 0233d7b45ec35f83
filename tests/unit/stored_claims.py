"""The claim document as libvirt stores it: what it was passed, with its prefix and namespace."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vgpumgr import templates
from vgpumgr.core.model import claims

if TYPE_CHECKING:
    from vgpumgr.core.model.claims import ClaimDocument


def stored_claims(document: ClaimDocument) -> str:
    prefixed = re.sub(r"<(/?)(?=\w)", rf"<\1{claims.KEY}:", templates.render_claims(document))
    return prefixed.replace(":vgpumgr ", f':vgpumgr xmlns:{claims.KEY}="{claims.NAMESPACE}" ', 1)
