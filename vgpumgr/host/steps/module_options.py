"""What a step may change in /etc/modprobe.d: how GPUs share their time (RmPVMRL), in the options of the nvidia module.

Such a file can run any program as root when a module is loaded (`install`, modprobe.d(5)). Not everyone who may send
steps to this program may do that. So both texts of a step must be equal, apart from these dwords.
"""

import re
from typing import List, Optional

from ..facts.module import FOLDER

OURS = FOLDER + "/vgpumgr.conf"

_PARAMETER = "NVreg_RegistryDwordsPerDevice"
_DWORD = r"RmPVMRL=(?:0[xX][0-9A-Fa-f]{1,8}|[0-9]{1,10})"
_DEVICE = r"pci=[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
_LINE_END = re.compile(r"(?<!\\)\n")
_NOTHING = 'options nvidia {}=""'.format(_PARAMETER)
_COMMENT = re.compile(r"# [^\n\\]*")
_OPTIONS = re.compile(r"[ \t]*options[ \t]+nvidia[ \t]")
_ITEM = re.compile(r"(?:{};)?{}(?=[;\"\s]|$)".format(_DEVICE, _DWORD))
_SEPARATORS = re.compile(r";+(?=[;\"\s]|$)|(?<=[\"=]);+")


def why_not(path: str, before: Optional[str], after: Optional[str]) -> Optional[str]:
    """Why a step may not change the text `before` to `after`; null if it may. A null text: there is no such file."""
    if path != OURS and (before is None or _PARAMETER not in before):
        return "it may be {}, or a file that has {} already".format(OURS, _PARAMETER)
    if _others(path, before) != _others(path, after):
        return "only RmPVMRL in a line `options nvidia {}=…` may be changed there".format(_PARAMETER)
    return None


def _others(path: str, text: Optional[str]) -> List[str]:
    """The lines without what is ours: our dwords, lines that are empty without them, comments in our own file."""
    lines = []
    for line in _LINE_END.split(text or ""):
        is_options = _OPTIONS.match(line.replace("\\\n", ""))
        rest = _SEPARATORS.sub("", _ITEM.sub("", line)) if is_options else line
        if rest != _NOTHING and not (path == OURS and _COMMENT.fullmatch(line)):
            lines.append(rest)
    while lines and not lines[-1]:
        lines.pop()
    return lines
