"""The answers to `installed`, `install`, `uninstall` and `purge`."""

from typing import List, Optional, TypedDict

from .ledger import CordonFact
from .restored import RestoreFact


class InstalledProgramFact(TypedDict):
    """A host program below /opt/vgpumgr-host. `sha256`: its file's name. `intact`: its content has that hash."""

    sha256: str
    intact: bool


class InstallationFact(TypedDict):
    """What `host install` left here. `dispatcher`: the SHA-256 of its text below the first line, null if there is none.

    `by_dispatcher`: whether the dispatcher started this program. `user`: who called sudo, null for root's own login.
    `problems`: what was altered, or can be altered by users other than root. `restore`: null if it is not installed.
    `cordons`: those in the ledger, null if the ledger cannot be read.
    """

    by_dispatcher: bool
    user: Optional[str]
    dispatcher: Optional[str]
    pinned: bool
    programs: List[InstalledProgramFact]
    restore: Optional[RestoreFact]
    problems: List[str]
    cordons: Optional[List[CordonFact]]


class Installed(TypedDict):
    """The answer to `installed`, `install` and `uninstall`."""

    installation: InstallationFact


class PurgeFact(TypedDict):
    """The answer to `purge`: the files and folders of ours that were removed; with `check`, those that exist."""

    files: List[str]
