"""Asks a policy, and holds it to its contract: nothing is placed by one that fails or names what was not offered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.policies.known import BUILT_IN, DEFAULT
from vgpumgr.core.policies.policy import Candidate
from vgpumgr.errors import PolicyFailed
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType
    from typing import TypeVar

    from vgpumgr.core.policies.policy import Fleet, Policy

    Answer = TypeVar("Answer")


def rank(policy: Policy, offered: Sequence[Candidate], fleet: Fleet) -> tuple[Candidate, ...]:
    """The candidates that a policy uses, the best first. Raises PolicyFailed.

    The policy gets them in the order of `place`, so its answer does not depend on the order in which facts were read.
    """
    by_place = {one.place: one for one in sorted(offered, key=lambda one: one.place)}
    answer: tuple[object, ...] = ask(policy, lambda: tuple(policy.order(tuple(by_place.values()), fleet)))
    ranked: list[Candidate] = []
    for one in answer:
        if not isinstance(one, Candidate):
            raise _failed(policy, say("named {}, which was not offered to it", repr(one)))
        was = by_place.pop(one.place, None)
        if was is not one and was != one:
            raise _failed(policy, say("named {}, which was not offered to it, or twice", one.gpu))
        ranked.append(one)
    return tuple(ranked)


def why(policy: Policy, candidate: Candidate) -> str:
    """The policy's reason for a candidate's rank; its name before it, unless it is the default. Raises PolicyFailed."""
    reason = ask(policy, lambda: str(policy.why(candidate)))
    return reason if policy.name == DEFAULT.name else f"{policy.name}: {reason}"


def ask(policy: Policy, question: Callable[[], Answer]) -> Answer:
    """A policy's answer to a question. Raises PolicyFailed if the policy raises anything."""
    if policy.name in BUILT_IN:
        return question()
    try:
        return question()
    except (Exception, SystemExit) as error:  # somebody else's code, which must not end ours
        raise _failed(policy, say("raised {}{}: {}", type(error).__name__, _where(policy, error), error)) from error


def _where(policy: Policy, error: BaseException) -> str:
    """` in line 7 of FILE`, ` in FILE` if no line of it raised the error; nothing if the policy's file is unknown."""
    code: CodeType | None = getattr(policy.order, "__code__", None)
    if code is None:
        return ""
    line = line_in(code.co_filename, error)
    return f" in {code.co_filename}" if line is None else f" in line {line} of {code.co_filename}"


def line_in(file: str, error: BaseException) -> int | None:
    """The line of a file that an error was raised in, or came through last; None if it did not."""
    line, trace = None, error.__traceback__
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == file else line
        trace = trace.tb_next
    return line


def _failed(policy: Policy, what: str) -> PolicyFailed:
    return PolicyFailed(
        say("the placement policy {} {}; nothing was placed by it", policy.name, what),
        hint="mend it (`vgpumgr docs plugins`), or name another policy",
    )
