"""A capture, from the wire to core's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.certify import capture
from vgpumgr.host.protocol.capture import Capture, FunctionFiles, NvmlCall
from vgpumgr.link.values import snapshot_facts
from vgpumgr.link.values.by_name import declare

if TYPE_CHECKING:
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.names import HostName

_parse_function = declare(FunctionFiles, capture.Function, "files")
_parse_call = declare(NvmlCall, capture.Call)


def parse(host: HostName, facts: Capture, catalogue: Catalogue | None = None) -> capture.Capture:
    """Build the capture; `raw` is the answer itself."""
    texts = facts["texts"]
    return capture.Capture(
        snapshot=snapshot_facts.parse(host, facts["snapshot"], catalogue),
        host=facts["host"],
        functions=tuple(_parse_function(row, files=texts[row["files"]]) for row in facts["functions"]),
        calls=tuple(map(_parse_call, facts["calls"])),
        raw={**facts},
    )
