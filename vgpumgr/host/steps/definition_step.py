"""The steps that libvirt carries out, on a VM's definition or on the running VM, as they come over the wire: checked like the vGPU steps."""

from typing import cast

from ..fields import Check, Checks, check_fields, is_text, matches, one_of, or_null
from ..protocol import ATTACH_DEVICE, DETACH_DEVICE, PLUG_DEVICE, SET_METADATA, UNPLUG_DEVICE, DefinitionStep
from .device_xml import read_source
from .step import UUID

_NAMESPACE = r"urn:vgpumgr:domain:[1-9][0-9]{0,3}"


def _is_document(value: object) -> bool:
    """Whether libvirt would be given the whole text: to C it ends at the first zero byte."""
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:  # half a surrogate pair, which JSON accepts
        return False
    return True


def _is_vgpu(value: object) -> bool:
    return isinstance(value, str) and read_source(value) is not None


_VM: Check = matches(UUID)
_XML = "a text of XML"

_METADATA: Checks = {
    "verb": (one_of(SET_METADATA), SET_METADATA),
    "vm_uuid": (_VM, "a VM's uuid in lower case"),
    "xml": (or_null(_is_document), _XML + " or null"),
    "key": (_is_document, "a text"),
    "uri": (matches(_NAMESPACE), "a namespace of vgpumgr"),
}

_VERBS = (ATTACH_DEVICE, DETACH_DEVICE, PLUG_DEVICE, UNPLUG_DEVICE)
_DEVICE: Checks = {
    "verb": (one_of(*_VERBS), "one of {}".format(", ".join(_VERBS))),
    "vm_uuid": (_VM, "a VM's uuid in lower case"),
    "xml": (_is_vgpu, "the XML of a vGPU's host device"),
}


def parse_definition_step(data: object) -> DefinitionStep:
    """The step; its verb is one for libvirt. Raises Refusal(BadRequest) saying which key is wrong."""
    verb = check_fields(data, {"verb": (is_text, "a text")}, "step")["verb"]
    return cast("DefinitionStep", check_fields(data, _METADATA if verb == SET_METADATA else _DEVICE, "step"))
