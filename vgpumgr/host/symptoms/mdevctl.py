"""The definitions of mdevctl, /etc/mdevctl.d/PARENT/UUID: JSON with mdev_type and start (mdevctl(8))."""

import json
import os
import re
import stat
from typing import List, Optional

from ..facts.module import NotText, read_regular
from ..files import Root, Unknowns, directory
from ..protocol.symptoms import MdevDefinitionFact

_FOLDER = "/etc/mdevctl.d"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOST = 1000


def read_definitions(root: Root, unknown: Unknowns) -> Optional[List[MdevDefinitionFact]]:
    """Each definition; null, and noted, if any of them cannot be read or understood."""
    facts: List[MdevDefinitionFact] = []
    try:
        with directory(root.path(_FOLDER)) as folder:
            for parent in sorted(os.listdir(folder)):
                if not stat.S_ISDIR(os.stat(parent, dir_fd=folder, follow_symlinks=False).st_mode):
                    continue
                with directory(parent, folder) as definitions:  # scripts.d is here, too, and has no UUID in it
                    names = sorted(filter(_UUID.fullmatch, os.listdir(definitions)))[: _MOST - len(facts)]
                    facts.extend(_definition(parent, name, definitions) for name in names)
    except FileNotFoundError:
        return facts
    except (OSError, NotText, ValueError) as error:
        unknown.add("definitions", "{}: {}".format(_FOLDER, error))
        return None
    return facts


def _definition(parent: str, name: str, folder: int) -> MdevDefinitionFact:
    try:
        told = dict(json.loads(read_regular(os.fsencode(name), folder) or b""))
    except (RecursionError, TypeError, ValueError):
        raise ValueError("{}/{} is no definition".format(parent, name)) from None
    kind, start = str(told.get("mdev_type") or "?"), told.get("start")
    return {"parent": parent, "uuid": name.lower(), "type": kind, "auto": start == "auto"}
