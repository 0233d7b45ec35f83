"""Renders the files of templates/; only this module imports jinja2. XML is escaped; an undefined value is an error.

jinja2 is imported with the first template: a command that changes nothing renders none.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from vgpumgr import resources
from vgpumgr.core.model import claims
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.errors import TemplateError
from vgpumgr.wording import say

if TYPE_CHECKING:
    import jinja2

    from vgpumgr.core.model.domain_xml import Hostdev


def render_hostdev(device: Hostdev, *, port: int | None = None) -> str:
    """The <hostdev> that is passed to libvirt for a vGPU; `port`: the guest's PCI bus for it."""
    match device.source:
        case Mdev(uuid):
            return _render("hostdev-mdev.xml.j2", device=device, port=port, uuid=uuid)
        case Vf(pci):
            domain, bus, rest = pci.split(":")
            slot, function = rest.split(".")
            address = {"domain": domain, "bus": bus, "slot": slot, "function": function}
            return _render("hostdev-pci.xml.j2", device=device, port=port, **address)


def render_claims(document: claims.ClaimDocument) -> str:
    """The claim document as virDomainSetMetadata takes it.

    Raises TemplateError if it would be larger than claims.MAX_BYTES.
    """
    text = _render(
        "claim.xml.j2",
        document=document,
        ask=claims.ask_attributes,
        granted=claims.grant_attributes,
        binding=claims.binding_attributes,
    )
    if len(text.encode()) > claims.MAX_BYTES:
        raise TemplateError(
            say("the claims of VM {} would take more than {} bytes of its metadata", document.vm, claims.MAX_BYTES),
            hint="a VM cannot have that many slots",
        )
    return text


def render_job(name: str, **values: object) -> str:
    """A file for cron or systemd. The caller has quoted the commands among the values."""
    return _render(name, **values) + "\n"


def render_page(name: str, **values: object) -> str:
    """A page of HTML. Values are escaped."""
    return _render(name, **values)


def _render(name: str, **values: object) -> str:
    import jinja2

    try:
        return environment().get_template(name).render(values)
    except jinja2.TemplateError as error:
        raise TemplateError(f"template {name}: {error}", hint="install vgpumgr again") from error


@cache
def environment() -> jinja2.Environment:
    """The cached renderer. A caller may make it before it is needed."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(resources.template_text),
        # Shells, cron, systemd and modprobe have their own quoting.
        autoescape=jinja2.select_autoescape(("xml.j2", "html.j2"), default=False),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=False,
    )
