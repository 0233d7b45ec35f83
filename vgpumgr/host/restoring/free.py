"""The program of the libvirt hook once a VM has ended, however its start went: its lazy vGPUs are freed."""

import sys
from typing import NoReturn

from ..files import Root
from .waking import Waker


def main() -> NoReturn:
    """The dispatcher's entry point. libvirt writes the definition to its stdin, and ignores its exit status by then."""
    why = Waker(Root()).put_to_sleep(sys.stdin.buffer.read())
    if why is not None:
        sys.stderr.write("vgpumgr: its vGPU stays until `vgpumgr reconcile`: {}\n".format(why))
    sys.exit(0)
