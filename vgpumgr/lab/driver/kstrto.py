"""Numbers as the kernel reads them from sysfs: kstrtou16(), kstrtoul() (base 0), kstrtol() (base 10); lib/kstrtox.c."""

from __future__ import annotations

import errno
import re

from vgpumgr.lab.driver.errors import os_error

_DIGITS = re.compile(r"0[xX](?P<hex>[0-9a-fA-F]+)|(?P<octal>0[0-7]*)|(?P<decimal>[1-9][0-9]*)")
_BASES = {"hex": 16, "octal": 8, "decimal": 10}
_DECIMAL = re.compile(r"[+-]?[0-9]+")
_WIDEST = 64


def unsigned(text: str, bits: int) -> int:
    """An unsigned number of `bits` bits: decimal, 0x or octal, optionally with a leading plus and one trailing newline.

    Raises OSError, EINVAL for every mistake, as the kernel's store functions that read such numbers do.
    Text after a NUL is ignored.
    """
    word = text.partition("\0")[0].removeprefix("+")
    match = _DIGITS.match(word)
    if match is None or match.lastgroup is None:
        raise os_error(errno.EINVAL)
    value = int(match[match.lastgroup], _BASES[match.lastgroup])
    if value >> bits or word[match.end() :] not in ("", "\n"):
        raise os_error(errno.EINVAL)
    return value


def signed_decimal(text: str) -> int:
    """A signed 64-bit number, always decimal, optionally with one trailing newline.

    Raises OSError: ERANGE if it is too large, EINVAL if it is not a number.
    """
    word = text.partition("\0")[0]
    match = _DECIMAL.match(word)
    if match is None:
        raise os_error(errno.EINVAL)
    value = int(match[0])
    if abs(value) >> _WIDEST:
        raise os_error(errno.ERANGE)
    if word[match.end() :] not in ("", "\n"):
        raise os_error(errno.EINVAL)
    if not -(1 << _WIDEST - 1) <= value < 1 << _WIDEST - 1:
        raise os_error(errno.ERANGE)
    return value
