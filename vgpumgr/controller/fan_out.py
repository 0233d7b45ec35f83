"""One function over many hosts in bounded parallel: a host that fails is an outcome, never the end of the others."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from vgpumgr import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.names import HostName

Result = TypeVar("Result")

MAX_WORKERS = 32  # more threads hide no more latency: the interpreter lock is the ceiling (measured, paramiko 5.1)
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Result]):
    """What one host gave: a value, or the error that stopped it. Exactly one of the two is set."""

    host: HostName
    value: Result | None
    error: errors.VgpumgrError | None


def fan_out(hosts: Sequence[HostDeclaration], work: Callable[[HostDeclaration], Result]) -> tuple[Outcome[Result], ...]:
    """Run `work` for every host; the answers come back in the order of the hosts."""
    if not hosts:
        return ()
    with ThreadPoolExecutor(max_workers=min(MAX_WORKERS, len(hosts)), thread_name_prefix="host") as pool:
        return tuple(pool.map(lambda host: _one(host, work), hosts))


def _one(host: HostDeclaration, work: Callable[[HostDeclaration], Result]) -> Outcome[Result]:
    try:
        return Outcome(host=host.name, value=work(host), error=None)
    except errors.VgpumgrError as error:
        return Outcome(host=host.name, value=None, error=error)
    except Exception as error:  # a bug at one host must not stop the others; it is recorded whole
        logger.exception("host %s: unexpected", host.name)
        failed = errors.ProgramFailed(
            host.name, f"unexpected {type(error).__name__}: {error}", hint="this is a bug in vgpumgr; see the log (-v)"
        )
        return Outcome(host=host.name, value=None, error=failed)
