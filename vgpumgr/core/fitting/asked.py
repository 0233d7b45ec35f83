"""What `fit` is asked: GPUs that are empty, and the vGPUs that are to lie on them. As text, or as a file.

As text: `2xA40, L40/mixed-size: 3x8Q 2x12Q`. Each board may have a mode; without one the search chooses.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import known_types, modes
from vgpumgr.core.fitting import counts, shapes
from vgpumgr.errors import UnknownProfile, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.modes import Mode

MOST_GPUS: Final = 64
MOST_VGPUS: Final = counts.MOST
_FORM: Final = "write it as 'A40: 3x8Q 2x12Q', or '2xA40, L40/mixed-size: 8Q 12Q'"
_TIMES = re.compile(r"(?:([0-9]{1,6})[xX*])?\s*(.*)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Empty:
    """An empty GPU: its board's code, and the mode in which it has to be; None: any that the board has."""

    board: str
    mode: Mode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """GPUs, and how many vGPUs of each profile (as it was written) are to lie on them, whichever of them has room."""

    gpus: tuple[Empty, ...]
    requests: tuple[tuple[str, int], ...]


def parse(catalogue: Catalogue, words: Iterable[str]) -> tuple[Pool, ...]:
    """The pools of a command line: each in one word, or spread over several. Raises UsageError, UnknownProfile."""
    texts: list[str] = []
    for word in words:
        if not texts or (":" in word and ":" in texts[-1]):
            texts.append(word)
        else:
            texts[-1] += f" {word}"
    return tuple(_pool(catalogue, text) for text in texts)


def _pool(catalogue: Catalogue, text: str) -> Pool:
    head, colon, tail = text.partition(":")
    if not colon or not head.strip() or not tail.strip() or ":" in tail:
        raise UsageError(f"{text[:80]!r} does not say which vGPUs are to lie on which GPUs", hint=_FORM)
    gpus: list[Empty] = []
    for part in head.split(","):
        number, name = _times(part.strip(), text)
        gpus += [_gpu(catalogue, name)] * number
    requests: Counter[str] = Counter()
    for part in tail.replace(",", " ").split():
        number, name = _times(part, text)
        requests[name] += number
    return within(Pool(gpus=tuple(gpus), requests=tuple(requests.items())), f"{text[:80]!r}")


def _times(part: str, text: str) -> tuple[int, str]:
    match = _TIMES.fullmatch(part)
    count = int(match[1] or 1) if match else 0
    if match is None or not match[2] or not count:
        raise UsageError(
            f"{part[:40]!r} in {text[:80]!r} is neither a name nor a number with a name, such as 3x8Q", hint=_FORM
        )
    return count, match[2]


def _gpu(catalogue: Catalogue, text: str) -> Empty:
    """A board with or without its mode. Some boards have a slash in their names."""
    board, slash, word = text.rpartition("/")
    mode = next((one for one in modes.MODES if one == word.strip().lower()), None)
    if slash and mode is not None:
        return in_mode(catalogue, board.strip(), mode)
    try:
        return Empty(board=known_types.board_of(catalogue, text))
    except UnknownProfile:
        if board and board.strip() in catalogue.boards:
            raise _no_mode(catalogue, board.strip(), word.strip()) from None
        raise


def in_mode(catalogue: Catalogue, board: str, mode: Mode | None) -> Empty:
    """An empty GPU in a mode. Raises UnknownProfile for a board not listed, UsageError for a mode that it lacks."""
    code = known_types.board_of(catalogue, board)
    if mode is not None and mode not in shapes.modes_of(catalogue, code):
        raise _no_mode(catalogue, code, mode)
    return Empty(board=code, mode=mode)


def _no_mode(catalogue: Catalogue, board: str, word: str) -> UsageError:
    hint = f"a GPU of this board can be in {' or '.join(shapes.modes_of(catalogue, board))} mode"
    return UsageError(f"{word[:40]!r} is no mode of {board}", hint=hint)


def within(pool: Pool, what: str) -> Pool:
    """The pool. Raises UsageError if it has more than MOST_GPUS or MOST_VGPUS; `what` names the pool in the message."""
    for number, most, noun in (
        (len(pool.gpus), MOST_GPUS, "GPUs"),
        (sum(count for _, count in pool.requests), MOST_VGPUS, "vGPUs"),
    ):
        if number > most:
            raise UsageError(f"{what} has {number} {noun}", hint=f"at most {most}: ask about a part of them")
    return pool
