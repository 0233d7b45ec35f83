"""The definitions of mdevctl, /etc/mdevctl.d/PARENT/UUID: JSON with mdev_type and start (mdevctl(8)).

Others write these files. Only regular files are opened, to a limit, and only so many of them.
"""

import json
import os
import re
import stat
from typing import List, Optional

from ..files import Root, Unknowns, directory
from ..protocol.symptoms import MdevDefinitionFact

_FOLDER = "/etc/mdevctl.d"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOST_FILES = 1000
_MOST_BYTES = 64 * 1024
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_definitions(root: Root, unknown: Unknowns) -> Optional[List[MdevDefinitionFact]]:
    """Each of them; null if any cannot be read or understood."""
    facts: List[MdevDefinitionFact] = []
    try:
        with directory(root.path(_FOLDER)) as folder:
            for parent in sorted(os.listdir(folder)):
                if not stat.S_ISDIR(os.stat(parent, dir_fd=folder, follow_symlinks=False).st_mode):
                    continue  # mdevctl's scripts.d has folders, too, but no file that is named by a UUID
                with directory(parent, folder) as definitions:
                    for name in sorted(filter(_UUID.fullmatch, os.listdir(definitions))):
                        if len(facts) >= _MOST_FILES:
                            unknown.add("definitions", "more than {} in {}".format(_MOST_FILES, _FOLDER))
                            return None
                        facts.append(_definition(parent, name, definitions))
    except FileNotFoundError:
        return facts
    except (OSError, ValueError) as error:
        unknown.add("definitions", "{}: {}".format(_FOLDER, error))
        return None
    return facts


def _definition(parent: str, name: str, folder: int) -> MdevDefinitionFact:
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("{}/{} is no file".format(parent, name))
        data = os.read(descriptor, _MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _MOST_BYTES:
        raise ValueError("{}/{} is larger than {} KiB".format(parent, name, _MOST_BYTES // 1024))
    try:
        told = dict(json.loads(data.decode("utf-8")))
    except (RecursionError, TypeError, ValueError):
        raise ValueError("{}/{} is no definition".format(parent, name)) from None
    return {
        "parent": parent,
        "uuid": name.lower(),
        "type": str(told.get("mdev_type") or "?"),
        "auto": told.get("start") == "auto",
    }
