"""What libvirt-guests does with running VMs when the host shuts down.

It is a shell script with defaults of its own, which differ by distribution, and it sources its configuration last.
"""

import os
import re
from typing import Optional

from ..facts.module import NotText, read_regular
from ..files import Root, Unknowns
from ..protocol.symptoms import OnShutdownFact

_FILES = (
    "/usr/lib/libvirt/libvirt-guests.sh",
    "/usr/libexec/libvirt-guests.sh",
    "/etc/default/libvirt-guests",
    "/etc/sysconfig/libvirt-guests",
)
_LINE = re.compile(rb"^[ \t]*(?:export[ \t]+)?ON_SHUTDOWN=[\"']?([a-z]{1,20})", re.MULTILINE)


def read_on_shutdown(root: Root, unknown: Unknowns) -> Optional[OnShutdownFact]:
    """The last ON_SHUTDOWN in the order in which the script sets it.

    Null if there is none; null, and noted, if a file cannot be read.
    """
    found: Optional[OnShutdownFact] = None
    for path in _FILES:
        try:
            actions = _LINE.findall(read_regular(os.fsencode(root.path(path))) or b"")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, NotText) as error:
            unknown.add("on_shutdown", "{}: {}".format(path, error))
            return None
        if actions:
            found = {"path": path, "action": actions[-1].decode("ascii")}
    return found
