"""The definitions of mdevctl, /etc/mdevctl.d/PARENT/UUID: JSON with mdev_type and start (mdevctl(8))."""

import json
import os
import re
import stat
from contextlib import suppress
from typing import List, Optional

from ..facts.module import NotText, read_regular
from ..files import Root, Unknowns, directory
from ..protocol.symptoms import MdevDefinitionFact

_FOLDER = "/etc/mdevctl.d"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOST = 1000


def read_definitions(root: Root, unknown: Unknowns) -> Optional[List[MdevDefinitionFact]]:
    """Each definition, at most 1000; if there are more, that is noted. What is removed meanwhile is left out.

    Null, and noted, if any of them cannot be read or understood.
    """
    facts: List[MdevDefinitionFact] = []
    try:
        with suppress(FileNotFoundError), directory(root.path(_FOLDER)) as folder:
            for parent in sorted(os.listdir(folder)):
                with suppress(FileNotFoundError):
                    facts += _of_parent(parent, folder, _MOST + 1 - len(facts))
    except (OSError, NotText, ValueError) as error:
        unknown.add("definitions", "{}: {}".format(_FOLDER, error))
        return None
    if len(facts) > _MOST:
        unknown.add("definitions", "{} has more than {}: the others are left out".format(_FOLDER, _MOST))
    return facts[:_MOST]


def _of_parent(parent: str, folder: int, most: int) -> List[MdevDefinitionFact]:
    facts: List[MdevDefinitionFact] = []
    if stat.S_ISDIR(os.stat(parent, dir_fd=folder, follow_symlinks=False).st_mode):
        with directory(parent, folder) as definitions:  # scripts.d is here, too, and has no UUID in it
            for name in sorted(filter(_UUID.fullmatch, os.listdir(definitions)))[:most]:
                with suppress(FileNotFoundError):
                    facts.append(_definition(parent, name, definitions))
    return facts


def _definition(parent: str, name: str, folder: int) -> MdevDefinitionFact:
    try:
        told = json.loads(read_regular(os.fsencode(name), folder) or b"")
        kind, start = str(told.get("mdev_type") or "?"), told.get("start")
    except (RecursionError, AttributeError, ValueError):
        raise ValueError("{}/{} is no definition".format(parent, name)) from None
    return {"parent": parent, "uuid": name.lower(), "type": kind, "auto": start == "auto"}
