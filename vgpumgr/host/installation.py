"""What `vgpumgr host install` leaves on a host: a dispatcher and the programs that it runs, in one folder of root's.

With a restore, one of the programs also lies there as `restore`, and a systemd unit runs it after a boot.
"""

import base64
import hashlib
import os
import shutil
import sys
from contextlib import suppress
from typing import Any, Dict, List, Optional

from . import dispatcher
from .dispatcher import BY_DISPATCHER, DISPATCHER, FOLDER, PIN, PROGRAMS, RESTORE, UNFINISHED, Refused
from .fields import refuse
from .files import Root, names_in, why
from .ledger.ledger import facts_of, read_ledger
from .protocol.installed import InstallationFact, InstalledProgramFact
from .protocol.ledger import CordonFact
from .protocol.restored import RestoreFact
from .protocol.session import BAD_REQUEST, LAZIES, PINNED_HERE
from .refusal import Refusal
from .restoring import unit
from .restoring.last import read_last

_FOLDER_MODE = 0o755
_SHEBANG = "#!{} -IS\n"


def look(root: Root) -> InstallationFact:
    """What is installed. `problems`: what is wrong with it."""
    problems: List[str] = []
    text = _read(root.path(DISPATCHER), problems)
    if text is not None:
        _check(DISPATCHER, root, problems)
    return {
        "by_dispatcher": BY_DISPATCHER in os.environ,
        "user": os.environ.get("SUDO_USER"),
        "dispatcher": None if text is None else hashlib.sha256(text.partition(b"\n")[2]).hexdigest(),
        "pinned": os.path.lexists(root.path(PIN)),
        "programs": _programs(root, problems),
        "restore": _restore(root, problems),
        "problems": problems,
        "cordons": _cordons(root),
    }


def install(root: Root, request: Dict[str, Any]) -> InstallationFact:
    """Write the request's dispatcher and programs, whatever was there before. Raises Refusal, OSError."""
    _refuse_pinned(root)
    text, programs, pinned = request.get("dispatcher"), request.get("programs"), request.get("pinned")
    if not isinstance(text, str) or not isinstance(programs, list) or not programs:
        refuse("dispatcher and programs must be text and a list")
    if not isinstance(pinned, bool) or not isinstance(request.get("restore"), bool):
        refuse("pinned and restore must be true or false")
    contents = [_decoded(program) for program in programs]
    named = {hashlib.sha256(content).hexdigest(): content for content in contents}
    for folder in (FOLDER, PROGRAMS):
        os.makedirs(root.path(folder), exist_ok=True)
        os.chown(root.path(folder), 0, 0)
        os.chmod(root.path(folder), _FOLDER_MODE)
    for name, content in named.items():
        dispatcher.write(root.path("{}/{}".format(PROGRAMS, name)), content, 0o644)
    if pinned:
        for name in names_in(root.path(PROGRAMS)):
            if name not in named:
                os.unlink(root.path("{}/{}".format(PROGRAMS, name)))
        dispatcher.write(root.path(PIN), b"", 0o644)
    elif os.path.lexists(root.path(PIN)):
        os.unlink(root.path(PIN))
    dispatcher.prune(root.top)
    # The interpreter is the one that runs this: the host's own, which is new enough.
    script = (_SHEBANG.format(sys.executable) + text).encode()
    dispatcher.write(root.path(DISPATCHER), script, 0o755)
    if request["restore"]:
        unit.put(root, contents[-1])
    return look(root)


def uninstall(root: Root) -> InstallationFact:
    """Remove what install wrote and nothing else, and the folder once it is empty. Raises Refusal, OSError."""
    _refuse_pinned(root)
    lazies = [row for row in read_ledger(root).entries if row.get("lazy")]
    if lazies:
        text = "it makes the lazy vGPUs of {} when they start"
        raise Refusal(LAZIES, text.format(", ".join(sorted({row["vm_name"] for row in lazies}))))
    unit.remove(root)
    for file in (DISPATCHER, PIN):  # the dispatcher first: it runs nothing from then on
        with suppress(FileNotFoundError):
            os.unlink(root.path(file))
    if os.path.lexists(root.path(PROGRAMS)):
        shutil.rmtree(root.path(PROGRAMS))
    if is_bare(root):
        shutil.rmtree(root.path(FOLDER))
    return look(root)


def is_bare(root: Root) -> bool:
    """Whether the folder exists with nothing in it but files that a killed install had not finished."""
    folder = root.path(FOLDER)
    return os.path.lexists(folder) and all(name.startswith(UNFINISHED) for name in names_in(folder))


def _cordons(root: Root) -> Optional[List[CordonFact]]:
    try:
        return facts_of(read_ledger(root).cordons, CordonFact)
    except Refusal:  # every command that needs the ledger says why
        return None


def _refuse_pinned(root: Root) -> None:
    """Raises Refusal if versions are pinned and this login may run only the dispatcher."""
    if BY_DISPATCHER in os.environ and os.path.lexists(root.path(PIN)):
        raise Refusal(PINNED_HERE, "the installed versions are pinned, and this login runs nothing but the dispatcher")


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (TypeError, ValueError):  # binascii.Error is one
        raise Refusal(BAD_REQUEST, "a program must be base64") from None


def _programs(root: Root, problems: List[str]) -> List[InstalledProgramFact]:
    programs: List[InstalledProgramFact] = []
    folder = root.path(PROGRAMS)
    names = (
        sorted(name for name in names_in(folder) if not name.startswith(UNFINISHED)) if os.path.lexists(folder) else []
    )
    for name in names:
        path = "{}/{}".format(PROGRAMS, name)
        content = _read(root.path(path), problems)
        if content is not None:
            intact = hashlib.sha256(content).hexdigest() == name
            programs.append({"sha256": name, "intact": intact})
            if not intact:
                problems.append("{} is not what its name says: it was altered".format(path))
            _check(path, root, problems)
    return programs


def _restore(root: Root, problems: List[str]) -> Optional[RestoreFact]:
    content = _read(root.path(RESTORE), problems)
    if content is None:
        return None
    _check(RESTORE, root, problems)
    return {
        "program": hashlib.sha256(content).hexdigest(),
        "enabled": unit.is_enabled(root),
        "last": read_last(root),
    }


def _check(path: str, root: Root, problems: List[str]) -> None:
    """Note a problem if users other than root can change the file."""
    try:
        dispatcher.check_owner(path, root.top, is_file=True)
    except (Refused, OSError) as error:
        problems.append(str(error))


def _read(path: str, problems: List[str]) -> Optional[bytes]:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        problems.append(why(error))
        return None
