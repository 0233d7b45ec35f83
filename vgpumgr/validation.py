"""Validates rendered documents by libvirt's own schema and parser, in its test driver, without a daemon or host.

The product is installed without libvirt-python, so this module is imported only for a validation.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

import libvirt

from vgpumgr.core.evidence.preflight import version_text
from vgpumgr.errors import TemplateError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

_URI = "test:///default"
_DOMAIN = """<domain type='test'>
  <name>vgpumgr-validation</name>
  <memory unit='MiB'>64</memory>
  <os><type>hvm</type></os>
  <devices>{}</devices>
</domain>"""

libvirt.registerErrorHandler(lambda *_: None, None)  # errors are raised; libvirt need not print them as well


class Accepted(NamedTuple):
    """`version`: libvirt's, in the form 9.0.0. `documents`: what it accepts, as named in messages."""

    version: str
    documents: tuple[str, ...]


def validate(hostdevs: Iterable[tuple[str, str]]) -> Accepted:
    """Validate each slot's hostdev, and a domain with all of them if there are several.

    Raises TemplateError with libvirt's message if it refuses one, UsageError if it refuses even an empty domain.
    """
    version = version_text(libvirt.getVersion())
    if words := _refusal(""):
        raise UsageError(
            f"libvirt {version} on this machine cannot validate anything",
            details=words,
            hint="its schemas come with its library: install that again (Debian: libvirt0, RHEL: libvirt-libs)",
        )
    documents = {f"the hostdev of {slot}": xml for slot, xml in hostdevs}
    if len(documents) > 1:
        documents["a domain with all of them"] = "".join(documents.values())
    for what, xml in documents.items():
        if words := _refusal(xml):
            raise TemplateError(f"libvirt {version} refuses {what}", details=words)
    return Accepted(version, tuple(documents))


def _refusal(devices: str) -> list[str]:
    """The message with which libvirt refuses a domain with these devices; empty if it accepts the domain."""
    try:
        with contextlib.closing(libvirt.open(_URI)) as connection:
            connection.defineXMLFlags(_DOMAIN.format(devices), libvirt.VIR_DOMAIN_DEFINE_VALIDATE).undefine()
    except libvirt.libvirtError as error:
        return str(error).splitlines()
    return []
