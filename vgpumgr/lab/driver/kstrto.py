"""Numbers as the kernel reads them from a write to sysfs: kstrtou16() and kstrtoul() with base 0, kstrtol() with base 10 (lib/kstrtox.c)."""

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

    Raises OSError, EINVAL for every mistake, as the stores that read these do. Text after a NUL is ignored.
    """
    seen = text.partition("\0")[0].removeprefix("+")
    found = _DIGITS.match(seen)
    if found is None or found.lastgroup is None:
        raise os_error(errno.EINVAL)
    value = int(found[found.lastgroup], _BASES[found.lastgroup])
    if value >> bits or seen[found.end() :] not in ("", "\n"):
        raise os_error(errno.EINVAL)
    return value


def signed_decimal(text: str) -> int:
    """A signed 64-bit number, always decimal, optionally with one trailing newline.

    Raises OSError: ERANGE if it is too large, EINVAL if it is not a number.
    """
    seen = text.partition("\0")[0]
    found = _DECIMAL.match(seen)
    if found is None:
        raise os_error(errno.EINVAL)
    value = int(found[0])
    if abs(value) >> _WIDEST:
        raise os_error(errno.ERANGE)
    if seen[found.end() :] not in ("", "\n"):
        raise os_error(errno.EINVAL)
    if not -(1 << _WIDEST - 1) <= value < 1 << _WIDEST - 1:
        raise os_error(errno.ERANGE)
    return value
