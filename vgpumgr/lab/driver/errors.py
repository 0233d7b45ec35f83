"""The kernel's errors as Python raises them."""

from __future__ import annotations

import os


def os_error(number: int) -> OSError:
    """The OSError of that errno, with its text."""
    return OSError(number, os.strerror(number))
