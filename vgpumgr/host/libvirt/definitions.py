"""Changes of a domain, by only four of libvirt's calls: set its metadata, attach a device, detach a device, start it.

The first three change either the persistent definition or the running domain.

A document that was dumped is never defined again: that would lose passwords, and what others changed in the meantime.
"""

from typing import Callable, Dict

from ..protocol.session import CHANGED, LIBVIRT_REFUSED
from ..protocol.steps import (
    ATTACH_DEVICE,
    DETACH_DEVICE,
    PLUG_DEVICE,
    SET_METADATA,
    START_DOMAIN,
    UNPLUG_DEVICE,
    DefinitionStep,
    MetadataStep,
)
from ..refusal import Refusal
from .binding import AFFECT_CONFIG, AFFECT_LIVE, NO_DOMAIN_METADATA, START_FAILED, Connection, Domain, LibvirtError
from .client import Client, Turn, Unavailable


def change(client: Client, step: DefinitionStep, wait_s: float) -> None:
    """Make the step's change. Raises Refusal, which says whether the change may have been made, or may be later."""

    def call(connection: Connection, turn: Turn) -> None:
        # Apart from the change, this mostly detects a libvirtd that is gone by now.
        domain = connection.lookup(step["vm_uuid"])
        try:
            turn.begin()
            _CHANGES[step["verb"]](domain, step)
        finally:
            domain.free()

    try:
        client.begin(call, wait_s)()
    except Unavailable as error:
        raise Refusal(
            LIBVIRT_REFUSED, error.message, why=error.kind, code=error.code, verb=step["verb"], begun=error.begun
        ) from error


def _set_metadata(domain: Domain, step: MetadataStep) -> None:
    try:
        domain.set_metadata(step["xml"], key=step["key"], uri=step["uri"])
    except LibvirtError as error:
        if step["xml"] is not None or error.code != NO_DOMAIN_METADATA:
            raise


def _start(domain: Domain) -> None:
    """Start a VM whose last start failed, and no other: whoever shut it down meant it."""
    state = domain.state()
    if state != START_FAILED:
        found = "state {}, reason {}".format(*state)
        raise Refusal(CHANGED, "expected a VM whose last start failed, found " + found, expected="failed", found=found)
    domain.start()


_CHANGES: "Dict[str, Callable[..., None]]" = {
    SET_METADATA: _set_metadata,
    ATTACH_DEVICE: lambda domain, step: domain.attach_device(step["xml"], AFFECT_CONFIG),
    DETACH_DEVICE: lambda domain, step: domain.detach_device(step["xml"], AFFECT_CONFIG),
    PLUG_DEVICE: lambda domain, step: domain.attach_device(step["xml"], AFFECT_LIVE),
    UNPLUG_DEVICE: lambda domain, step: domain.detach_device(step["xml"], AFFECT_LIVE),
    START_DOMAIN: lambda domain, _: _start(domain),
}
