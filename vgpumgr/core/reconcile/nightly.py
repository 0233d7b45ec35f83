"""The nightly job as a value, and its command quoted so that cron, a shell and systemd read it as intended.

crontab(5): `%` is a newline unless a backslash precedes it, and everything after the first one is input. So a `%` is
written `\\%`, which cron undoes before the shell sees the line. A literal backslash is refused: crons differ in whether
two of them are one. systemd.syntax(7), systemd.service(5): double quotes with C escapes, `%%` and `$$`.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

CRON_LINE_MAX = 990  # vixie-cron's MAX_COMMAND is 1000 characters, and it silently drops a longer line
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_AT = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_SEAL = re.compile(r"^# sha256:([0-9a-f]{64})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`words` is the command, with absolute paths only. It starts at `hour`:`minute`, or up to `jitter_s` later.

    `plan_only`: the command reports what differs, and changes nothing.
    """

    words: tuple[str, ...]
    user: str
    hour: int
    minute: int
    jitter_s: int
    plan_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Confined:
    """What a systemd unit needs of its machine. The unit gets nothing else.

    `here`: the machine is itself a hypervisor, so the unit is not confined. `state` and `runtime` are folders that
    systemd makes below /var/lib and /run; `writes` are other folders that the unit writes.
    """

    here: bool = False
    state: str | None = None
    runtime: str | None = None
    writes: tuple[str, ...] = ()


def parse_at(text: str) -> tuple[int, int]:
    """`02:30` → hour and minute. Raises UsageError."""
    match = _AT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"not a time of day: {text!r}", hint="write it as 02:30")
    return int(match[1]), int(match[2])


def parse_user(text: str) -> str:
    """A user's or group's name, safe in a crontab and in a unit. Raises UsageError."""
    if _USER.fullmatch(text) is None:
        raise UsageError(f"not a user name: {text!r}")
    return text


def cron_command(schedule: Schedule, *, mailto: str | None = None) -> str:
    """The last field of the crontab line. Raises UsageError for a command that no crontab can hold.

    `mailto`: what is printed is mailed to that address with a subject, which cron's own mail does not have.
    """
    command = shlex.join(_checked(schedule.words, "\\"))
    if mailto:
        command = _mailing(command, mailto)
    if schedule.jitter_s:
        # sh has no $RANDOM; two bytes are enough for 18 hours.
        wait = f'sleep "$(( $(od -An -N2 -tu2 /dev/urandom) % {schedule.jitter_s + 1} ))"'
        command = f"{wait}; {command}" if mailto else f"{wait}; exec {command}"
    line = command.replace("%", r"\%")
    if len(line) > CRON_LINE_MAX:
        raise UsageError(
            f"the command has {len(line)} characters, but cron reads only {CRON_LINE_MAX}",
            hint="use a shorter path for the inventory, or `vgpumgr install timer`",
        )
    return line


def _mailing(command: str, mailto: str) -> str:
    """The command for sh, which mails what the job prints.

    Where there is no sendmail, cron gets the text, as it would without `mailto`.
    """
    head = "To: %s\\nSubject: vgpumgr on %s: %s\\nContent-Type: text/plain; charset=utf-8\\n\\n%s\\n"
    return (
        f'out="$({command} 2>&1)"; code=$?; [ -n "$out" ] || exit $code; '
        'case $code in 0) what=report;; 3) what=drift;; *) what="exit $code";; esac; '
        f'printf \'{head}\' {shlex.quote(mailto)} "$(uname -n)" "$what" "$out" | '
        "if command -v sendmail >/dev/null; then sendmail -t; else cat; fi; exit $code"
    )


def systemd_command(words: Iterable[str]) -> str:
    """The value of ExecStart=. Raises UsageError for a newline or another control character."""
    return " ".join(_systemd_word(word) for word in _checked(words, ""))


def seal(text: str) -> str:
    """The text behind a new first line, by which any later change can be noticed."""
    return f"# sha256:{_digest(text)}\n{text}"


def is_untouched(text: str) -> bool:
    """Whether a sealed text is unchanged; False for any text that we did not seal."""
    match = _SEAL.match(text)
    return match is not None and match[1] == _digest(text[match.end() + 1 :])


def is_sealed(text: str) -> bool:
    """Whether a text has our seal. Somebody may have changed the text since."""
    return _SEAL.match(text) is not None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _systemd_word(word: str) -> str:
    word = word.replace("%", "%%").replace("$", "$$")
    if _PLAIN.fullmatch(word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _checked(words: Iterable[str], marks: str) -> tuple[str, ...]:
    for word in words:
        bad = next((mark for mark in word if not mark.isprintable() or mark in marks), None)
        if bad is not None:
            raise UsageError(
                f"{word!r} has a {'backslash' if bad == chr(92) else 'character that is not printable'}, "
                "which the job's file cannot hold safely",
                hint="rename the folder, or use a symbolic link to it",
            )
    return tuple(words)
