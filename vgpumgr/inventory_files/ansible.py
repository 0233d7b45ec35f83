"""Asks `ansible-inventory --list`, if a setting allows it, for what only Ansible can read (a script, a plugin).

vgpumgr itself runs nothing of the directory. The answer is YAML, read by the same rules as a file and trusted no more.
It is kept beside the journal for some minutes, so that not every command asks a cloud.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import selectors
import shlex
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr import files
from vgpumgr.errors import InventoryError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

VARIABLE: Final = "VGPUMGR_ANSIBLE_INVENTORY"
PROGRAM: Final = "ansible-inventory"
SOURCE: Final = f"{PROGRAM} --list"  # the place that problems in the answer name
MAX_BYTES: Final = 32 * files.MIB
TIMEOUT_S: Final = 60.0
KEPT_ALONE: Final = math.inf  # only a kept answer, however old; Ansible is not run
_KEPT_S: Final = 600.0
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600}
_TOLD: Final = {"ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true", "ANSIBLE_NOCOLOR": "1"}
_SAID_BYTES: Final = 64 * 1024
_SHOWN: Final = 400
_PIECE: Final = 64 * 1024


class NoAnswerError(Exception):
    """Why there is no answer, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What Ansible printed, `age_s` ago."""

    text: str
    age_s: float


def kept_s(environ: Mapping[str, str]) -> float | None:
    """How many seconds old a kept answer may be; None if Ansible is not asked. Raises InventoryError."""
    setting = environ.get(VARIABLE, "")
    if setting in ("", "0"):
        return None
    if setting == "1":
        return _KEPT_S
    match = re.fullmatch(r"([0-9]{1,6})([smh])", setting)
    if match is None:
        raise InventoryError(
            f"{VARIABLE} is {setting!r}",
            hint="set it to 1, or to how long an answer is kept: 30s, 10m, 1h",
        )
    return float(match[1]) * _UNITS_S[match[2]]


def ask(
    paths: Sequence[Path], read: Iterable[Path], environ: Mapping[str, str], *, most_s: float, keep: Path | None
) -> Answer:
    """Ansible's answer for inventories: the kept one if it is at most `most_s` old and no file of `read` has changed.

    Otherwise Ansible is asked. `keep`: the folder for answers. Raises NoAnswerError.
    """
    names = [str(path.absolute()) for path in paths]
    state = hashlib.sha256(repr([names, *map(_state, read)]).encode()).hexdigest()
    place = None if keep is None else keep / f"inventory-{hashlib.sha256(repr(names).encode()).hexdigest()[:16]}.json"
    answer = None if place is None else _kept(place, state)
    if answer is not None and 0 <= answer.age_s <= most_s:
        return answer
    if most_s == KEPT_ALONE:
        raise NoAnswerError("none is kept")
    program = shutil.which(PROGRAM, path=environ.get("PATH"))
    if program is None:
        raise NoAnswerError(f"{PROGRAM} is not installed here (no program of that name in PATH)")
    text = _run([program, *_sources(paths), "--list", "--export", "--yaml"], environ)
    if place is not None:
        _keep(place, state, text)
    return Answer(text=text, age_s=0.0)


def by_hand(paths: Sequence[Path]) -> str:
    """The command by which a person gets the same answer of Ansible."""
    return shlex.join([PROGRAM, *_sources(paths), "--list"])


def _sources(paths: Sequence[Path]) -> list[str]:
    return [part for path in paths for part in ("-i", str(path.absolute()))]


def _state(path: Path) -> tuple[str, int, int]:
    try:
        status = path.stat()
    except OSError:
        return str(path), 0, 0
    return str(path), status.st_mtime_ns, status.st_size


def _kept(place: Path, state: str) -> Answer | None:
    """The answer kept there; None if the file is not ours, or the state has changed."""
    try:
        status = place.lstat()
        if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
            return None
        row = json.loads(files.read_bytes(place, 2 * MAX_BYTES))
        if row["state"] != state:
            return None
        return Answer(text=str(row["answer"]), age_s=time.time() - float(row["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(place: Path, state: str, text: str) -> None:
    """Keep an answer, if possible; otherwise the next command asks again."""
    beside = place.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump({"at": time.time(), "state": state, "answer": text}, stream)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)


def _run(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """The command's output. Raises NoAnswerError, also if Ansible cannot read a source: its hosts would be missing."""
    with tempfile.TemporaryDirectory(
        prefix="vgpumgr-"
    ) as place:  # Ansible's own folder would be in a home that a confined service cannot write
        return _run_with(command, {**environ, **_TOLD, "ANSIBLE_LOCAL_TEMP": place})


def _run_with(command: Sequence[str], environ: Mapping[str, str]) -> str:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,  # no terminal: it cannot prompt, and only we get a Ctrl-C
        )
    except OSError as error:
        raise NoAnswerError(f"{PROGRAM} cannot be run: {error.strerror}") from error
    try:
        output, stderr = _listen(process)
        code = process.wait(TIMEOUT_S)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise NoAnswerError(f"{PROGRAM} did not end within {TIMEOUT_S:g} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # and what an inventory's script has started
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    if code != 0:
        raise NoAnswerError(f"{PROGRAM} fails: {_cause(stderr.decode(errors='replace')) or f'exit status {code}'}")
    try:
        return output.decode("utf-8")
    except UnicodeDecodeError:
        raise NoAnswerError(f"the output of {PROGRAM} is not UTF-8 text") from None


def _listen(process: subprocess.Popen[bytes]) -> tuple[bytearray, bytearray]:
    """The process's stdout, and the end of its stderr. Raises TimeoutError, and NoAnswerError for too much output."""
    output, stderr, until = bytearray(), bytearray(), time.monotonic() + TIMEOUT_S
    with selectors.DefaultSelector() as streams:
        for stream, into in ((process.stdout, output), (process.stderr, stderr)):
            assert stream is not None
            streams.register(stream, selectors.EVENT_READ, into)
        while streams.get_map():
            wait_s = until - time.monotonic()
            ready = streams.select(wait_s) if wait_s > 0 else []
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    streams.unregister(key.fileobj)
                key.data.extend(piece)
            del stderr[:-_SAID_BYTES]
            if len(output) > MAX_BYTES:
                raise NoAnswerError(f"the output of {PROGRAM} is larger than {MAX_BYTES // files.MIB} MiB")
    return output, stderr


def _cause(stderr: str) -> str:
    """Ansible's last error and its first warning, which has the cause."""
    lines = [" ".join(line.split()) for line in stderr.splitlines()]
    errors = [line for line in lines if line.startswith(("[ERROR]", "ERROR!"))]
    warnings = [line for line in lines if line.startswith("[WARNING]")]
    return "; ".join((*errors[-1:], *warnings[:1]))[:_SHOWN]
