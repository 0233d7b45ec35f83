"""Starts controllers: real processes of `vgpumgr ARGUMENTS`, forked with the imports already done (they cost 0.3 s each).

A child differs from `vgpumgr` on a shell only in that: it has its own session, files for input and output, and
runs main() to the program's end. Before that it may be given interference (tests/crash/interference.py), or a function
that is called `first` (MODULE:NAME), with `given`.

    → {"argv": […], "env": {…}, "in": PATH, "out": PATH, "err": PATH, "interference": {…} | null, "first": MODULE:NAME, "given": …}
                                                       ← {"started": PID}      ← {"ended": PID, "status": N}
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
from typing import Any

# What is imported inside functions, and so by none of our modules when it is imported itself.
_WARM = (
    *("paramiko", "libvirt", "jinja2", "yaml", "click", "sqlite3", "tabulate", "wcwidth"),
    *("concurrent.futures.thread", "tests.crash.interference", "tests.acceptance.altered"),
)
# They are not for a controller: what runs on the hosts, and the parts of the lab that are a simulated host.
_ELSEWHERE = ("vgpumgr.host.", "vgpumgr.lab.machine.host", "vgpumgr.lab.sysfs.", "vgpumgr.lab.nvml.smi.")


def import_all() -> None:
    """Every module of the program, so that no child imports one again."""
    for name in _WARM:
        importlib.import_module(name)
    import vgpumgr

    for module in pkgutil.walk_packages(vgpumgr.__path__, "vgpumgr."):
        if not module.name.startswith(_ELSEWHERE):
            importlib.import_module(module.name)
    from vgpumgr.link.program import bootstrap

    bootstrap.package(far=False)  # reads the host program's files once for all


def main() -> None:
    import_all()
    gc.collect()
    gc.freeze()  # a child that collects its garbage leaves alone, and so shares, what is there already
    wake, woken = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    selector.register(wake, selectors.EVENT_READ)
    buffer = b""
    while True:
        ready = {key.fd for key, _ in selector.select()}
        if wake in ready:
            os.read(wake, 4096)
            _reap()
        if 0 in ready:
            piece = os.read(0, 65536)
            if not piece:
                return
            *lines, buffer = (buffer + piece).split(b"\n")
            for line in lines:
                request = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    selector.close()
                    os.close(wake)
                    os.close(woken)
                    _become(request)
                _say({"started": pid})


def _become(request: dict[str, Any]) -> None:
    """The child: leaves through the top of the program, as the real one does."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for number, path, flags in ((0, request["in"], os.O_RDONLY), (1, request["out"], _NEW), (2, request["err"], _NEW)):
        descriptor = os.open(path, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])

    from tests.crash import interference
    from vgpumgr.cli.main import main as run

    faulthandler.enable()
    if request["interference"] is not None:
        interference.install(request["interference"])
    if request["first"]:
        module, _, name = request["first"].partition(":")
        getattr(importlib.import_module(module), name)(request["given"])
    run(request["argv"])


_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _say({"ended": pid, "status": os.waitstatus_to_exitcode(status)})


def _say(message: dict[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
