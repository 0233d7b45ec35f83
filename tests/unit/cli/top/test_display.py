"""`top`'s loop on a terminal: what is shown, how keys and sizes are taken, and how it leaves the terminal."""

from __future__ import annotations

import os
import signal
import sys
import unicodedata

import pytest

from tests.unit.cli.top.terminal import Terminal

LIVE = [sys.executable, "-m", "tests.unit.cli.top.live"]


def first_words(terminal: Terminal) -> list[str]:
    """The VMs on the screen, from above."""
    lines = terminal.display.lines
    head = next(number for number, line in enumerate(lines) if line.startswith("VM "))
    return [line.split()[0] for line in lines[head + 1 : -1] if line]


def test_q_ends_it_and_the_terminal_is_as_it_was() -> None:
    """In colours, with readings that follow one another, and the command's help one key away."""
    with Terminal([*LIVE, "moving"]) as terminal:
        terminal.until("\nvm02")
        assert (terminal.display.other, terminal.display.cursor, terminal.restored) == (True, False, False)
        assert terminal.display.coloured
        terminal.until(" 10%")
        terminal.press("\r")
        terminal.until("SM, percent of the whole GPU: p50 50%")
        assert terminal.display.lines[0] == "vm02 vgpu0"
        terminal.press("\x1b")
        terminal.until("\nvm02")
        terminal.press("H")
        terminal.until("the command's own help")
        terminal.press("xq")
        assert terminal.wait() == 0
        assert terminal.restored


@pytest.mark.parametrize(
    ("what", "end", "code"),
    [("moving", signal.SIGINT, 130), ("hangs", signal.SIGTERM, 143), ("hangs", "\x03", 130)],
    ids=["SIGINT", "SIGTERM while hosts are waited for", "Ctrl-C while hosts are waited for"],
)
def test_a_signal_ends_it_and_the_terminal_is_as_it_was(what: str, end: str | int, code: int) -> None:
    with Terminal([*LIVE, what]) as terminal:
        terminal.until("\nvm02" if what == "moving" else "reading 2 hosts")
        if isinstance(end, str):
            terminal.press(end)
        else:
            os.kill(terminal.pid, end)
        assert terminal.wait() == code
        assert terminal.restored


def test_a_frame_is_drawn_whole_before_a_signal_ends_it() -> None:
    """Once in many runs Ctrl-C ended it with 1, as a bug does."""
    with Terminal([*LIVE, "interrupted"]) as terminal:
        assert terminal.wait() == 130
        assert terminal.restored


def test_an_error_in_a_reading_ends_it_and_the_terminal_is_as_it_was() -> None:
    with Terminal([*LIVE, "breaks"]) as terminal:
        assert terminal.wait() == 1
        assert terminal.restored


def test_keys_are_answered_while_hosts_are_waited_for() -> None:
    with Terminal([*LIVE, "hangs"]) as terminal:
        terminal.until("reading 2 hosts …")
        terminal.press("h")
        terminal.until("press any key to continue")
        terminal.press("xq")
        assert terminal.wait() == 0
        assert terminal.restored


def test_sort_filter_and_hiding_are_keys() -> None:
    """By SM first, the busiest above; then by framebuffer. What is not known is a question mark, a host not read is named. A filter is typed, kept by Enter, dropped by Esc."""
    with Terminal([*LIVE, "moving"]) as terminal:
        terminal.until("1-3 of 3  by sm  1 off hidden")
        assert first_words(terminal) == ["vm02", "🐧\\x1b[2J", "vm01"]
        terminal.press("o")
        terminal.until("1-4 of 4  by sm")
        assert first_words(terminal) == ["vm02", "🐧\\x1b[2J", "vm01", "vm03"]
        # The whole line: a terminal may be read while it is written.
        terminal.until(lambda seen: any(line.startswith("vm03") and line.endswith("?") for line in seen.lines))
        (off,) = [line for line in terminal.display.lines if line.startswith("vm03")]
        assert off.split() == ["vm03", "vgpu0", "kvm01", "?", "?/24.0", "50%", "A40-24Q", "?", "?", "?"]
        assert "kvm02  ? not read: Unreachable" in terminal.display.text
        terminal.press("s")
        terminal.until("by fb")
        assert first_words(terminal)[:2] == ["vm01", "vm02"]
        terminal.press("o")
        terminal.until("off hidden")
        assert "vm03" not in first_words(terminal)
        terminal.press("/VM02")
        terminal.until("/VM02_")
        terminal.press("\r")
        terminal.until("only /VM02")
        assert first_words(terminal) == ["vm02"]
        terminal.press("\x1b")
        terminal.until(lambda display: "only" not in display.text)
        assert len(first_words(terminal)) == 3


def test_arrows_and_pages_move_the_selection_and_a_new_size_is_taken_at_once() -> None:
    """The screen follows. Fewer columns, dropped from the right, and fewer rows; no line is longer than the terminal."""
    with Terminal([*LIVE, "many"], height=23) as terminal:
        terminal.until("1-18 of 500")
        for keys, rows in (
            ("\x1b[B\x1b[B\x1b[6~", "4-21"),
            ("\x1b[F", "483-500"),
            ("\x1bOA\x1b[5~", "481-498"),
            ("\x1b[H", "1-18"),
        ):
            terminal.press(keys)
            terminal.until(f"{rows} of 500")
        assert "ENTITLED" in terminal.display.text
        terminal.resize(12, 60)
        terminal.until("1-8 of 500")
        assert "ENTITLED" not in terminal.display.text
        assert len(first_words(terminal)) == 8
        assert all(width(line) <= 60 for line in terminal.display.lines)


def width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def test_a_terminal_that_knows_ascii_only_gets_bars_of_it_and_no_colour_where_it_is_not_wanted() -> None:
    """And a name that it cannot show does not end the program."""
    with Terminal([*LIVE, "moving"], {"PYTHONIOENCODING": "latin-1", "NO_COLOR": "1"}) as terminal:
        terminal.until("\nvm02")
        assert not terminal.display.coloured
        (row,) = [line for line in terminal.display.lines if line.startswith("vm02")]
        assert "#####  " in row
        assert any(line.startswith("?\\x1b[2J") for line in terminal.display.lines)
        terminal.press("q")
        assert terminal.wait() == 0


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again() -> None:
    """Under a real shell with job control."""
    with Terminal(
        ["/bin/bash", "--norc", "--noprofile", "-i"], {"PS1": "prompt> ", "HISTFILE": "/dev/null"}
    ) as terminal:
        terminal.until("prompt>")
        terminal.press(f"{' '.join(LIVE)} moving\n")
        terminal.until(lambda display: display.other and "\nvm02" in display.text)
        terminal.press("\x1a")
        terminal.until(lambda display: not display.other and "Stopped" in display.text and "prompt>" in display.text)
        assert terminal.display.cursor
        terminal.press("fg\n")
        terminal.until(lambda display: display.other and "\nvm02" in display.text)
        terminal.press("q")
        terminal.until(lambda display: not display.other and "prompt>" in display.text)
        terminal.press("echo still $((40 + 2))\n")
        terminal.until("still 42")
