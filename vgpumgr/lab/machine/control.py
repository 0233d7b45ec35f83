"""How the `lab` commands talk to a host's supervisor: a unix socket D/hosts/NAME/control, one JSON line each way.

{"do": OP, …}                     → {"ok": {…}} or {"error": text, "hint": text | null, "details": […], "kind": text}

op        fields                    ok
status                              the host's state (Supervisor._status)
vms                                 {"vms": [names]}
reboot    optional driver,          {}          returns when the host answers again; as vgpumgr.lab.driver.upgrade says
          framework, renumber
start     vm                        {"devices": […]}; libvirt runs it with its vGPUs
hold      vm, and optional unseen   {"pid": n or null, "devices": […], "nodes": […]}; unseen: only the driver knows it,
                                    no process has it open, as when a VM opens a device that is being written to
load      vm, and optional device,  {"loads": [LoadRecord of each selected vGPU]}; fields not given are 0
          sm, memory, encoder,
          decoder, framebuffer
guest     vm, and optional driver,  {"devices": […]}: the vGPUs that show this driver; without one it is taken away
          license, expires_in (s)
release   vm                        {"ended": bool}
fault     name                      {}
reload                              {}          the nvidia modules were reloaded: no vGPU exists, and none is lost
clear                               {}
writes    since (optional)          {"writes": [WriteRecord from that revision on], "revision": the number of writes}
shutdown                            {}          the host is off and its file systems are gone when the socket closes
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from typing import TYPE_CHECKING, Any

from vgpumgr.errors import LabError, RequestError, UnknownVm, UsageError, VgpumgrError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

log = logging.getLogger(__name__)

SOCKET = "control"
_LINE_DEADLINE_S = 10.0  # a client that connects and stays silent does not block the host
_KINDS: dict[str, type[VgpumgrError]] = {
    kind.__name__: kind for kind in (LabError, RequestError, UnknownVm, UsageError)
}


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """The socket's path in at most 108 bytes, through a descriptor of its folder: the lab's path can be longer."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET}"
    finally:
        os.close(descriptor)


def listen(folder: Path) -> socket.socket:
    """The supervisor's end. The lab's folder is 0700, so only its owner can connect."""
    (folder / SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _address(folder) as address:
        listener.bind(address)
    listener.listen(64)
    return listener


def serve_one(connection: socket.socket, handle: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Read one request, carry it out, answer. A client's mistake ends only its own connection."""
    with connection, contextlib.suppress(OSError, ValueError):
        connection.settimeout(_LINE_DEADLINE_S)
        with connection.makefile("rb") as lines:
            request = json.loads(lines.readline())
        try:
            answer: dict[str, Any] = {"ok": handle(request)}
        except VgpumgrError as error:
            answer = refusal(error)
        except Exception as error:
            log.exception("request %r", request)
            answer = refusal(LabError(f"{type(error).__name__}: {error}"))
        connection.sendall(json.dumps(answer).encode() + b"\n")


def refusal(error: VgpumgrError) -> dict[str, Any]:
    return {"error": error.message, "hint": error.hint, "details": list(error.details), "kind": type(error).__name__}


def ask(folder: Path, op: str, fields: Mapping[str, str] | None = None, *, deadline_s: float = 60) -> dict[str, Any]:
    """Send one request to the host of that folder. Raises what the supervisor raised, or LabError if it is gone."""
    name = folder.name
    try:
        with _address(folder) as address, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(deadline_s)
            connection.connect(address)
            connection.sendall(json.dumps({"do": op, **(fields or {})}).encode() + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline()
    except TimeoutError as error:
        raise LabError(f"{name}: the host's supervisor did not answer `{op}` within {deadline_s:.0f} s") from error
    except OSError as error:
        raise LabError(
            f"{name}: the host's supervisor is not running", hint="take the lab down and bring it up again"
        ) from error
    if not line:
        raise LabError(f"{name}: the host's supervisor ended during `{op}`", hint=f"its log is {folder / 'log'}")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        kind = _KINDS.get(answer["kind"], LabError)
        raise kind(f"{name}: {answer['error']}", hint=answer["hint"], details=answer["details"])
    ok: dict[str, Any] = answer["ok"]
    return ok
