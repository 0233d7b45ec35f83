"""Messages that keep their parts, so that nobody has to parse them.

Each is a str, as the command line prints it. Code that words things differently (Ansible's modules), or that merges
similar messages, uses the parts.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable


class _Part(str):
    """A str with parts. A deep copy of a value that holds such a text (dataclasses.asdict) keeps the text itself."""

    __slots__ = ()

    def __deepcopy__(self, _memo: object) -> Self:
        return self


class Command(_Part):
    """A command for a shell, its words quoted where necessary."""

    __slots__ = ("words",)
    words: tuple[str, ...]

    def __new__(cls, *words: str) -> Self:
        command = super().__new__(cls, shlex.join(words))
        command.words = words
        return command


class Option(_Part):
    """An option of `vgpumgr`, and the value to give it, if one is known."""

    __slots__ = ("name", "value")
    name: str
    value: str | None

    def __new__(cls, name: str, value: object = None) -> Self:
        option = super().__new__(cls, name if value is None else f"{name} {value}")
        option.name, option.value = name, None if value is None else str(value)
        return option


class Own(_Part):
    """A detail of one host: an address, fingerprint, duration, process. Texts that differ only in it mean the same."""

    __slots__ = ()


class GpuAddress(Own):
    """A GPU's PCI address at the beginning of a line about that GPU."""

    __slots__ = ()


class Message(_Part):
    """A text and the values in it. `texts`: the parts before, between and after the `values`."""

    __slots__ = ("texts", "values")
    texts: tuple[str, ...]
    values: tuple[str, ...]

    def __new__(cls, texts: Iterable[str], values: Iterable[str]) -> Self:
        texts, values = tuple(texts), tuple(values)
        message = super().__new__(cls, texts[0] + "".join(a + b for a, b in zip(values, texts[1:], strict=True)))
        message.texts, message.values = texts, values
        return message

    def told(self, tell: Callable[[str], str]) -> str:
        """The text with each value converted by `tell`."""
        return str(Message(self.texts, map(tell, self.values)))


def say(template: str, *values: object) -> Message:
    """`say("{} runs on {}", vm, host)`. A Message as a value adds its own parts. In a template only `{}` is special."""
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
    """The texts joined by the separator, as a Message with all their parts."""
    several = [*texts]
    return say(separator.join(["{}"] * len(several)), *several)


def values(text: str) -> tuple[str, ...]:
    """The values of a Message; none for a plain text."""
    return text.values if isinstance(text, Message) else ()


def cut(text: str, own: Container[str | None]) -> list[str]:
    """The text in pieces, every second one being Own or in `own`; similar messages share the other pieces."""
    if not isinstance(text, Message):
        return [text]
    pieces = [text.texts[0]]
    for value, after in zip(text.values, text.texts[1:], strict=True):
        if isinstance(value, Own) or value in own:
            pieces += [value, after]
        else:
            pieces[-1] += value + after
    return pieces
