"""Typed reads of located values: each returns the value, or None after reporting what was found instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Collection

    from vgpumgr.core.inventory.located import Table, Value
    from vgpumgr.core.inventory.report import Report


Word = TypeVar("Word", bound=str)

NOT_TEXT = "?"  # the tag of a key that is a list or mapping; the reader has reported it


def read_table(value: Value, what: str, report: Report, *, example: str, none_allowed: bool = True) -> Table | None:
    """A mapping whose keys YAML reads as strings. Anything else is a problem, and so is an empty value.

    A value that is entirely commented out must not look like a declaration of nothing, which is written {}.
    """
    if not _known(value, what, f"a mapping, for example {example}", report):
        return None
    if value.data is None:
        report.problem(
            value.where, f"{what} is empty", "write {} for none" if none_allowed else f"for example {example}"
        )
        return None
    if not isinstance(value.data, Mapping):
        report.problem(value.where, f"{what} must be a mapping, found {found(value)}", f"for example {example}")
        return None
    table: Table = value.data
    if all(_is_plain(key.data) and key.opaque is None for key, _ in table.values()):
        return table
    return {text: member for text, member in table.items() if _is_name(member.key, what, report)}


def _is_plain(data: object) -> bool:
    """Whether the data is a string that cannot be a template."""
    return isinstance(data, str) and "{" not in data


def _is_name(key: Value, what: str, report: Report) -> bool:
    if key.opaque is not None or (isinstance(key.data, str) and ("{{" in key.data or "{%" in key.data)):
        return key.opaque != NOT_TEXT and _known(key, f"a name in {what}", "the name", report)
    if not isinstance(key.data, str):
        meaning = f"the number {key.data}" if isinstance(key.data, float) else found(key)
        report.problem(
            key.where, f"in {what}, YAML reads the name {key.text!r} as {meaning}", f'write it in quotes: "{key.text}"'
        )
        return False
    return True


def check_keys(table: Table, valid: Collection[str], what: str, report: Report) -> None:
    """Report every key that is not valid."""
    for text, member in table.items():
        if text not in valid:
            like = nearest(text, valid)
            hint = f"did you mean {like!r}?" if like else f"valid: {', '.join(valid)}"
            report.problem(member.where, f"unknown key {text!r} in {what}", hint)


def read_text(value: Value, what: str, report: Report, *, example: str) -> str | None:
    """A string that is not empty."""
    if not _known(value, what, f"a string, for example {example}", report):
        return None
    if not isinstance(value.data, str):
        report.problem(value.where, f"{what} must be a string, found {found(value)}", f"for example {example}")
        return None
    if not value.data.strip():
        report.problem(value.where, f"{what} is an empty string", f"for example {example}")
        return None
    return value.data


def read_spelling(value: Value, what: str, report: Report, *, example: str) -> str | None:
    """A string or a number, as it was spelt."""
    if not _known(value, what, f"a number or a string, for example {example}", report):
        return None
    if isinstance(value.data, bool) or not isinstance(value.data, str | int | float):
        report.problem(
            value.where, f"{what} must be a number or a string, found {found(value)}", f"for example {example}"
        )
        return None
    return value.text.strip()


def read_choice(value: Value, what: str, valid: Collection[Word], report: Report) -> Word | None:
    """One of a few words."""
    if not _known(value, what, " or ".join(valid), report):
        return None
    for word in valid:
        if value.data == word:
            return word
    like = nearest(value.data, valid) if isinstance(value.data, str) else None
    choices = " or ".join((", ".join(list(valid)[:-1]), list(valid)[-1])) if len(valid) > 1 else "".join(valid)
    report.problem(
        value.where, f"{what} must be {choices}, found {found(value)}", f"did you mean {like!r}?" if like else None
    )
    return None


def read_whole(value: Value, what: str, report: Report, *, low: int, high: int) -> int | None:
    """A whole number within a range, or a string of digits (Ansible takes both)."""
    if not _known(value, what, f"a whole number from {low} to {high}", report):
        return None
    data = value.data
    if isinstance(data, str) and data.isascii() and data.isdigit() and len(data) < 10:
        data = int(data)
    if isinstance(data, bool) or not isinstance(data, int) or not low <= data <= high:
        report.problem(value.where, f"{what} must be a whole number from {low} to {high}, found {found(value)}")
        return None
    return data


def read_switch(value: Value, what: str, report: Report) -> bool | None:
    """True or false, in YAML's spellings or as one of the strings that Ansible takes."""
    if not _known(value, what, "true or false", report):
        return None
    if isinstance(value.data, bool):
        return value.data
    word = value.text.strip().lower()
    if word in {"true", "yes", "on", "y", "t", "1"}:
        return True
    if word in {"false", "no", "off", "n", "f", "0"}:
        return False
    report.problem(value.where, f"{what} must be true or false, found {found(value)}")
    return None


def found(value: Value) -> str:
    """What a value is, in words for a message. A secret's text never gets here, because the value is opaque."""
    match value.data:
        case None:
            return "nothing"
        case bool():
            return str(value.data).lower()
        case int() | float():
            return f"the number {_short(value.text)}"
        case str():
            return repr(_short(value.data))
        case tuple():
            return "a list"
        case _:
            return "a mapping"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _known(value: Value, what: str, kind: str, report: Report) -> bool:
    """Whether the value can be known without running Ansible. `kind`: what the value has to be, in words."""
    if value.opaque == "!vault":
        report.problem(
            value.where,
            f"{what} is encrypted with ansible-vault, which is not decrypted here",
            "write it in plain text",
        )
        return False
    if value.opaque is not None:
        report.problem(value.where, f"{what} has the unknown YAML tag {value.opaque}", "remove the tag")
        return False
    if isinstance(value.data, str) and "{" in value.data and ("{{" in value.data or "{%" in value.data):
        text = f"{what} is a Jinja template, which is not evaluated here: {found(value)}"
        report.template(value.where, text, value.data, kind)
        return False
    return True
