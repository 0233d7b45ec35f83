"""How the host program gets to the host and starts there, without a file: the fixed command, and the zip that it reads.

The command is one constant: no text from a user or a host is ever part of a shell string. The program's zip goes over
stdin into a memfd, from which Python imports it; /proc/self/fd/N on sys.path works as well as a file.

Any login shell will do: the command has only single-quoted text without quotes, newlines, backslashes and exclamation
marks, which sh, csh and fish read alike. Python is /usr/bin/python3 (the distribution's), then platform-python (RHEL),
then PATH's; if one is too old, it exits with TOO_OLD and the next is tried.
"""

from __future__ import annotations

import functools
import io
import zipfile

from vgpumgr import resources

TOO_OLD = 86
_CUT_SHORT = 87

_LOADER = (
    "import os,sys;"
    f"sys.version_info<(3,9) and sys.exit({TOO_OLD});"
    # Unbuffered, byte for byte: the input after the zip belongs to the program.
    f"r=lambda n:os.read(0,n) or sys.exit({_CUT_SHORT});"
    'n=int(b"".join(iter(lambda:r(1),bytes([10]))));'
    'd=bytearray();exec("while len(d)<n:d+=r(n-len(d))");'
    'f=os.memfd_create("vgpumgr");os.write(f,d);'
    'sys.path.insert(0,"/proc/self/fd/%d"%f);'
    "from vgpumgr_host.program import main;main()"
)
_SCRIPT = (
    "for p in /usr/bin/python3 /usr/libexec/platform-python python3; do "
    'command -v "$p" >/dev/null 2>&1 || continue; '
    '"$p" -I -c "$0" "$@"; s=$?; '
    f"[ $s -eq {TOO_OLD} ] || exit $s; "
    f'done; echo "no Python 3.9 or newer on this host" >&2; exit {TOO_OLD}'
)

SERVE = f"/bin/sh -c '{_SCRIPT}' '{_LOADER}'"
PUMP = f"{SERVE} pump"


@functools.cache
def package() -> bytes:
    """The loader's input: a length line and that many bytes of zip. Built once per process, in memory."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in sorted(resources.host_sources().items()):
            # An explicit ZipInfo has a fixed date, so that the same sources give the same bytes.
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, source)
    data = out.getvalue()
    return b"%d\n%b" % (len(data), data)
