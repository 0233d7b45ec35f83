"""The supervisor process of one host: `python -m vgpumgr.lab.machine.host LAB SPEC NAME LIBRARY ANSWERS READY_FD`.

vgpumgr.lab.fleet starts it in its own mount, UTS and IPC namespaces. It writes {"pid": …} to READY_FD at once, and
{"port": …, "host_key": …} when the host answers; then it serves the control socket until `shutdown`. On failure it
writes {"error": …, "hint": …, "details": […]} and ends. Killing it ends the host (see machine.py).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from pathlib import Path
from typing import TextIO

from vgpumgr.errors import LabError, VgpumgrError
from vgpumgr.lab.layout import Layout
from vgpumgr.lab.machine import control
from vgpumgr.lab.machine.supervisor import Supervisor
from vgpumgr.lab.machine.threads import end_on_signals
from vgpumgr.lab.spec_reader import load_spec

log = logging.getLogger(__name__)


def main(lab: str, spec: str, name: str, *, library: str, answers: str, ready: int) -> int:
    os.umask(0o022)
    end_on_signals()
    layout = Layout(folder=Path(lab))
    folder = layout.host(name)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    supervisor = None
    with os.fdopen(ready, "w", encoding="utf-8") as pipe:
        try:
            _say(pipe, {"pid": os.getpid()})
            record = layout.read()
            pace = 1.0 if record is None else record.pace
            supervisor = Supervisor(load_spec(spec).host(name), folder, sys.stderr.buffer, pace=pace)
            authorities = layout.authorities
            authorized = "" if authorities.for_users else layout.key.with_suffix(".pub").read_text(encoding="ascii")
            host_key = supervisor.build(
                library=Path(library), answers=Path(answers), authorized_key=authorized, authorities=authorities
            )
            supervisor.boot()
            supervisor.define_vms(answers=Path(answers))
            listener = control.listen(folder)
            _say(pipe, {"port": supervisor.port, "host_key": host_key})
        except (VgpumgrError, OSError) as error:
            # A broken pipe ends up here, too: nobody waits for this host any more.
            log.exception("the host did not come up")
            if supervisor is not None:
                supervisor.power_off()
            with contextlib.suppress(OSError):
                _say(pipe, control.refusal(error if isinstance(error, VgpumgrError) else LabError(str(error))))
            return 1
    with listener:
        while not supervisor.ended:
            connection, _ = listener.accept()
            control.serve_one(connection, supervisor.handle)
    return 0


def _say(pipe: TextIO, answer: dict[str, object]) -> None:
    pipe.write(json.dumps(answer) + "\n")
    pipe.flush()


if __name__ == "__main__":
    _, where, spec_file, host, mock, folder, descriptor = sys.argv
    status = main(where, spec_file, host, library=mock, answers=folder, ready=int(descriptor))
    logging.shutdown()
    # Not sys.exit, which would wait for the FUSE thread inside libfuse.
    os._exit(status)
