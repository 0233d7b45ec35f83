"""purge: remove the files that vgpumgr wrote on a host, once the ledger there is empty."""

import os
import time
from contextlib import suppress

from . import installation
from .dispatcher import DISPATCHER, FOLDER, PIN, PROGRAMS, RESTORE
from .files import Root
from .ledger.ledger import read_ledger
from .protocol.installed import PurgeFact
from .protocol.ledger import LEDGER_PATH
from .protocol.restored import RESTORED_PATH
from .restoring.unit import HOOK, LINK, UNIT
from .steps.hardware import changed

_UNFINISHED = LEDGER_PATH + ".new"  # a killed run's
_FILES = (LEDGER_PATH, _UNFINISHED, RESTORED_PATH, DISPATCHER, PIN, PROGRAMS, RESTORE, LINK, UNIT, HOOK)


def look(root: Root) -> PurgeFact:
    """What would be removed. Files that people keep for a login (sudoers, authorized_keys) are left out.

    The folder of what was installed counts as a file if a killed run left it without any.
    """
    paths = [path for path in _FILES if os.path.lexists(root.path(path))]
    return {"files": [*paths, FOLDER] if installation.is_bare(root) else paths}


def purge(root: Root) -> PurgeFact:
    """Remove the ledger and what `host install` left. Returns what was removed. The caller holds the exclusive lock.

    Raises Refusal if the ledger is not empty, or cannot be read; then nothing is removed. Raises OSError.
    """
    ledger = read_ledger(root)
    rows = len(ledger.entries) + len(ledger.instances) + len(ledger.cordons) + len(ledger.blocked_writes)
    rows += len(ledger.reserved(time.time()))
    if rows:
        raise changed("an empty ledger", "{} rows in it".format(rows))
    fact = look(root)
    installation.uninstall(root)  # it may refuse; the ledger goes after it
    for path in (LEDGER_PATH, _UNFINISHED):
        with suppress(FileNotFoundError):
            os.unlink(root.path(path))
    with suppress(OSError):  # not empty: the controller's own store may be there, if the host is the controller
        os.rmdir(root.path(os.path.dirname(LEDGER_PATH)))
    return fact
