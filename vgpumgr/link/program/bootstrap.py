"""How the host program starts on a host without a file: the fixed command, and the package that it reads.

The command is one constant: no text from a user or a host is ever part of a shell string. The program's zip
(package.py) goes over stdin into a memfd, from which Python imports it: sys.path takes /proc/self/fd/N like a file.

Any login shell will do: the command has only single-quoted text without quotes, newlines, backslashes and exclamation
marks, which sh, csh and fish read alike. Python is /usr/bin/python3 (the distribution's), then platform-python (RHEL),
then PATH's; if one is too old, it exits with TOO_OLD and the next is tried.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from typing import NamedTuple

from vgpumgr import resources
from vgpumgr.link.program.package import Packages, read_or_make

TOO_OLD = 86
CUT_SHORT = 87  # the loader did not get all that was sent, or got something else

_MAKING = threading.Lock()  # twenty hosts ask at once; functools.cache would let each of them make it

LOADER = (
    "import os,sys,zlib;"
    f"sys.version_info<(3,9) and sys.exit({TOO_OLD});"
    # Unbuffered, byte for byte: the input after the zip belongs to the program.
    f"e=lambda:sys.exit({CUT_SHORT});"
    "r=lambda n:os.read(0,n) or e();"
    'n=b"".join(iter(lambda:r(1),bytes([10])));n=int(n) if n.isdigit() else e();'
    'd=bytearray();exec("while len(d)<n:d+=r(n-len(d))");'
    "z=zlib.decompressobj();d=z.decompress(d);z.eof or e();"
    'f=os.memfd_create("vgpumgr");os.write(f,d);'
    'sys.path.insert(0,"/proc/self/fd/%d"%f);'
    "from vgpumgr_host.program import main;main()"
)
_SCRIPT = (
    "for p in /usr/bin/python3 /usr/libexec/platform-python python3; do "
    'command -v "$p" >/dev/null 2>&1 || continue; '
    # Isolated, and without the host's site-packages, which run code of their own: the standard library is enough.
    '"$p" -I -S -c "$0"; s=$?; '
    f"[ $s -eq {TOO_OLD} ] || exit $s; "
    f'done; echo "no Python 3.9 or newer on this host" >&2; exit {TOO_OLD}'
)

SERVE = f"/bin/sh -c '{_SCRIPT}' '{LOADER}'"
# In English, since its refusals are known by their words; `env`, because csh has no VARIABLE=value before a command.
SERVE_BY_SUDO = f"env LC_ALL=C sudo -n -- {SERVE}"


class Installable(NamedTuple):
    """What `host install` installs: the dispatcher's text, and the programs for near and far hosts.

    The hashes are SHA-256 in hex.
    """

    dispatcher: str
    programs: tuple[bytes, ...]
    dispatcher_hash: str
    program_hashes: frozenset[str]


def installable() -> Installable:
    """What this controller would install."""
    text = resources.host_sources()["vgpumgr_host/dispatcher.py"].decode()
    with _MAKING:
        lines = _packages()
    programs = tuple(dict.fromkeys(line.partition(b"\n")[2] for line in (lines.near, lines.far)))
    return Installable(
        dispatcher=text,
        programs=programs,
        dispatcher_hash=hashlib.sha256(text.encode()).hexdigest(),
        program_hashes=frozenset(hashlib.sha256(program).hexdigest() for program in programs),
    )


def package(*, far: bool) -> bytes:
    """The loader's input: a length line and that many bytes. There is one for all far hosts, one for all near ones."""
    with _MAKING:
        packages = _packages()
    return packages.far if far else packages.near


@functools.cache
def _packages() -> Packages:
    return Packages(*(b"%d\n%b" % (len(data), data) for data in read_or_make()))
