"""The host program's negative answer: an `err` of the protocol, raised as an exception."""

import errno
from typing import Any, Dict


class Refusal(Exception):
    """One `err` object: `kind` is the protocol's name for it, `fields` are its further keys."""

    def __init__(self, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.fields = fields

    def as_json(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = {"kind": self.kind, "message": self.message}
        answer.update(self.fields)
        return answer


class PeerGone(Exception):
    """The other end closed its side while we waited on its behalf; nobody is left to answer."""


def errno_name(number: int) -> str:
    """`EIO` for 5; the number itself if it has no name."""
    return errno.errorcode.get(number, str(number))


def reason(error: OSError) -> str:
    """An OSError as text: `EIO: Input/output error`."""
    if error.errno is None:
        return str(error)
    return "{}: {}".format(errno_name(error.errno), error.strerror)
