"""The nightly job's words come out of cron, sh and systemd as they went in."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.dose import dose
from vgpumgr import errors
from vgpumgr.core.reconcile import nightly

if TYPE_CHECKING:
    from pathlib import Path

# Whatever a folder may be called that is printable; a backslash is refused for cron.
words = st.lists(
    st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" %'\"$`!&;|<>(){}[]*?~#"), max_size=30),
    min_size=1,
    max_size=4,
).map(tuple)
cron_words = words.map(lambda found: tuple(word.replace("\\", "/") for word in found))


def job(*argv: str, jitter_s: int = 0) -> nightly.Schedule:
    return nightly.Schedule(words=argv, user="root", hour=2, minute=30, jitter_s=jitter_s)


def read_by_cron(line: str) -> str:
    r"""What cron passes to the shell: crontab(5), "unless escaped with a backslash", `%` ends the command."""
    assert "\n" not in line
    command = re.split(r"(?<!\\)%", line)[0]
    return command.replace(r"\%", "%")


def read_by_systemd(line: str) -> list[str]:
    """systemd.syntax(7) and systemd.service(5), as far as we write it: quotes, C escapes, `%%` and `$$`."""
    found = [
        quoted.replace('\\"', '"').replace("\\\\", "\\") if quoted or not plain else plain
        for quoted, plain in re.findall(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)', line)
    ]
    for word in found:
        assert re.fullmatch(r"(?:[^%$]|%%|\$\$)*", word), "a lone % or $ means something to systemd"
    return [word.replace("%%", "%").replace("$$", "$") for word in found]


@given(cron_words)
@settings(max_examples=dose(20, 60), deadline=None)
@example(("100%", "it's", 'say "x"', "$HOME `id` %"))
@example(("", "a b"))
def test_cron_and_a_real_shell_read_the_words_as_they_were(argv: tuple[str, ...]) -> None:
    """`sh -c` prints exactly the arguments, each with a bar behind it."""
    line = nightly.cron_command(job("printf", "%s|", *argv))
    done = subprocess.run(["sh", "-c", read_by_cron(line)], capture_output=True, check=True)
    assert done.stdout.decode() == "".join(f"{word}|" for word in argv)


SENDMAIL = """#!/bin/sh
cat > "$0.mail"
"""


@pytest.mark.parametrize(
    ("said", "code", "subject", "jitter_s"),
    [
        ("kvm01: 2 to create", 3, "drift", 0),
        ("waiting: kvm01 …", 0, "report", 0),
        ("error: kvm02: tcp", 4, "exit 4", 1),
        ("", 0, None, 0),
        ("", 5, None, 1),
    ],
)
def test_a_mail_has_a_subject_that_says_how_the_run_ended_and_there_is_none_where_nothing_is_printed(
    said: str, code: int, subject: str | None, jitter_s: int, tmp_path: Path
) -> None:
    """By a real shell, with a sendmail that keeps the mail; the exit code stays the run's, and odd words stay words."""
    program = tmp_path / "sendmail"
    program.write_text(SENDMAIL, encoding="utf-8")
    program.chmod(0o755)
    script = 'test "$1" = "100% it\'s" || exit 9; test -z "$2" || echo "$2" >&2; exit "$3"'
    words = ("sh", "-c", script, "sh", "100% it's", said, str(code))
    line = read_by_cron(nightly.cron_command(job(*words, jitter_s=jitter_s), mailto="ops@example.org"))
    done = subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        check=False,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    mail = tmp_path / "sendmail.mail"
    assert mail.exists() == (subject is not None)
    if subject is not None:
        head, _, body = mail.read_text(encoding="utf-8").partition("\n\n")
        assert head.splitlines() == [
            "To: ops@example.org",
            f"Subject: vgpumgr on {os.uname().nodename}: {subject}",
            "Content-Type: text/plain; charset=utf-8",
        ]
        assert body == f"{said}\n"


def test_without_a_sendmail_the_text_is_crons(tmp_path: Path) -> None:
    line = read_by_cron(nightly.cron_command(job("/bin/echo", "kvm01: drift"), mailto="ops"))
    for name in ("sh", "uname", "cat"):
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, check=False, env={"PATH": str(tmp_path)})
    assert done.returncode == 0
    assert done.stdout.decode().endswith("\n\nkvm01: drift\n")


def test_the_jitter_is_a_real_shells_number_within_its_bounds() -> None:
    """With sleep in place of a function that prints it, twenty runs stay within 0 and the limit, and differ."""
    line = read_by_cron(nightly.cron_command(job("true", jitter_s=900)))
    shown = [
        int(subprocess.run(["sh", "-c", f"sleep() {{ echo $1; }}; {line}"], capture_output=True, check=True).stdout)
        for _ in range(20)
    ]
    assert all(0 <= number <= 900 for number in shown)
    assert len(set(shown)) > 1


@given(words)
@example(("a\\", '\\"', "$x", "100%n", ";", ""))
def test_systemd_reads_the_words_as_they_were(argv: tuple[str, ...]) -> None:
    assert read_by_systemd(nightly.systemd_command(argv)) == list(argv)


@pytest.mark.parametrize("word", ["a\nb", "a\rb", "a\tb", "a\0b", "a\x1bb", "a\udc80b"])
def test_what_no_line_can_hold_is_refused(word: str) -> None:
    """A newline, another control character, and bytes that are no text, for cron and systemd alike."""
    with pytest.raises(errors.UsageError, match="not printable"):
        nightly.cron_command(job("vgpumgr", word))
    with pytest.raises(errors.UsageError, match="not printable"):
        nightly.systemd_command(("vgpumgr", word))


def test_what_crons_read_differently_or_drop_is_refused_for_cron_only() -> None:
    """A backslash, and a line that is too long."""
    with pytest.raises(errors.UsageError, match="backslash"):
        nightly.cron_command(job("vgpumgr", "a\\b"))
    with pytest.raises(errors.UsageError, match="990"):
        nightly.cron_command(job("vgpumgr", "x" * 990))
    assert nightly.systemd_command(("vgpumgr", "x" * 990)).endswith("x")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_sealed_text_is_untouched_until_anything_is_changed(text: str) -> None:
    sealed = nightly.seal(text)
    assert nightly.is_untouched(sealed)
    assert not nightly.is_untouched(sealed + "\n")
    assert not nightly.is_untouched(" " + sealed)
    assert not nightly.is_untouched(text)


@pytest.mark.parametrize(
    ("text", "time"), [("02:30", (2, 30)), ("2:05", (2, 5)), ("23:59", (23, 59)), ("00:00", (0, 0))]
)
def test_a_time_of_day_is_read(text: str, time: tuple[int, int]) -> None:
    assert nightly.parse_at(text) == time


@pytest.mark.parametrize("text", ["24:00", "2:5", "2", "2:60", "", "02:30:00", "* *", "2\n:30"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError):
        nightly.parse_at(text)


@pytest.mark.parametrize("text", ["", "root root", "a\nb", "-x", "$(id)", "root %", "x" * 33])
def test_what_is_no_user_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError):
        nightly.parse_user(text)
    assert nightly.parse_user("vgpu-mgr") == "vgpu-mgr"
