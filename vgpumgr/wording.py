"""Texts for people that keep what they were made of, so that nobody has to take one apart.

Each is a str, as the command line prints it. Who says things otherwise, as Ansible's modules do, or tells what is alike once,
asks for its parts.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable


class _Part(str):
    """Whoever copies a value that holds one (dataclasses.asdict) keeps it as it is."""

    __slots__ = ()

    def __deepcopy__(self, _memo: object) -> Self:
        return self


class Command(_Part):
    """A command to type in a shell, each word quoted where it needs to be."""

    __slots__ = ("words",)
    words: tuple[str, ...]

    def __new__(cls, *words: str) -> Self:
        made = super().__new__(cls, shlex.join(words))
        made.words = words
        return made


class Option(_Part):
    """An option of `vgpumgr`, and the value to give it, if one is known."""

    __slots__ = ("name", "value")
    name: str
    value: str | None

    def __new__(cls, name: str, value: object = None) -> Self:
        made = super().__new__(cls, name if value is None else f"{name} {value}")
        made.name, made.value = name, None if value is None else str(value)
        return made


class Own(_Part):
    """What is of one host alone: an address, a fingerprint, a duration, a process. Two texts that differ in it say the same."""

    __slots__ = ()


class GpuAddress(Own):
    """A GPU's PCI address, with which a line about that GPU begins."""

    __slots__ = ()


class Message(_Part):
    """A text and what was put into it. `texts` are what stands before, between and behind the `values`."""

    __slots__ = ("texts", "values")
    texts: tuple[str, ...]
    values: tuple[str, ...]

    def __new__(cls, texts: Iterable[str], values: Iterable[str]) -> Self:
        texts, values = tuple(texts), tuple(values)
        made = super().__new__(cls, texts[0] + "".join(a + b for a, b in zip(values, texts[1:], strict=True)))
        made.texts, made.values = texts, values
        return made

    def told(self, tell: Callable[[str], str]) -> str:
        """The text with each value as `tell` has it."""
        return str(Message(self.texts, map(tell, self.values)))


def say(template: str, *values: object) -> Message:
    """`say("{} runs on {}", vm, host)`. The parts of a Message are those of the whole. Nothing but `{}` has a meaning in a template."""
    first, *others = template.split("{}")
    texts, parts = [first], list[str]()
    for value, after in zip(values, others, strict=True):
        if isinstance(value, Message):
            texts[-1] += value.texts[0]
            texts += value.texts[1:]
            texts[-1] += after
            parts += value.values
        else:
            parts.append(value if isinstance(value, str) else str(value))
            texts.append(after)
    return Message(texts, parts)


def joined(separator: str, texts: Iterable[str]) -> Message:
    """As str.join does it."""
    several = [*texts]
    return say(separator.join(["{}"] * len(several)), *several)


def values(text: str) -> tuple[str, ...]:
    """What was put into it; nothing into a plain text."""
    return text.values if isinstance(text, Message) else ()


def cut(text: str, own: Container[str | None]) -> list[str]:
    """The text in pieces, of which every second one is Own or in `own`: what remains is what those that are alike share."""
    if not isinstance(text, Message):
        return [text]
    pieces = [text.texts[0]]
    for value, after in zip(text.values, text.texts[1:], strict=True):
        if isinstance(value, Own) or value in own:
            pieces += [value, after]
        else:
            pieces[-1] += value + after
    return pieces
