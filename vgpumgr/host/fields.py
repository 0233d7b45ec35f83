"""Checks of a request's fields, one by one, each with a text that says what the field must be."""

import re
from typing import Any, Callable, Dict, Mapping, NoReturn, Tuple

from .protocol import BAD_REQUEST
from .refusal import Refusal

Check = Callable[[object], bool]
Checks = Mapping[str, Tuple[Check, str]]


def is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_unsigned(value: object) -> bool:
    """A number for an unsigned 32-bit field of NVML's structures, in which too large a one would silently wrap around."""
    return isinstance(value, int) and is_count(value) and value < 2**32


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def matches(pattern: str) -> Check:
    """A check of the whole text by a regular expression."""
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def one_of(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


def or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def check_fields(data: object, checks: Checks, what: str) -> Dict[str, Any]:
    """The values of these keys in `data`; other keys are dropped. Raises Refusal(BadRequest) saying which is wrong."""
    if not isinstance(data, dict):
        refuse("{} must be an object".format(what))
    for key, (check, wanted) in checks.items():
        if key not in data:
            refuse("{}.{} is missing".format(what, key))
        if not check(data[key]):
            refuse("{}.{} must be {}, not {!r:.200}".format(what, key, wanted, data[key]))
    return {key: data[key] for key in checks}


def refuse(message: str) -> NoReturn:
    raise Refusal(BAD_REQUEST, message)
