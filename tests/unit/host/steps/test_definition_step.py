"""Steps that change a definition: what is not exactly such a step reaches no libvirt."""

from __future__ import annotations

import pytest

from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.executor import parse_step

VM = "6a1f0000-0000-0000-0000-000000000001"
PUT = {"verb": "set_metadata", "vm_uuid": VM, "xml": "<claim/>", "key": "v", "uri": "urn:vgpumgr:domain:2"}
MDEV = (
    "<hostdev mode='subsystem' type='mdev' model='vfio-pci'>\n  <source>\n    <address uuid='6a1f0000-0000-0000-0000-000000000002'/>\n"
    "  </source>\n  <alias name='ua-vgpu0'/>\n</hostdev>"
)
ATTACH = {"verb": "attach_device", "vm_uuid": VM, "xml": MDEV}


@pytest.mark.parametrize("step", [PUT, {**PUT, "xml": None}, ATTACH, {**ATTACH, "verb": "detach_device"}])
def test_a_step_is_read_and_unknown_keys_are_dropped(step: dict[str, object]) -> None:
    assert parse_step({**step, "flags": 4}) == step


@pytest.mark.parametrize(
    ("step", "key", "value"),
    [
        (PUT, "verb", "define"),
        (PUT, "verb", None),
        (PUT, "vm_uuid", VM.upper()),
        (PUT, "vm_uuid", "vm01"),
        (PUT, "xml", ""),
        (PUT, "xml", 3),
        (PUT, "xml", "<claim/>\0<other/>"),
        (PUT, "xml", "<claim name='\ud800'/>"),
        (PUT, "key", ""),
        (PUT, "uri", None),
        (PUT, "uri", "urn:somebody:else"),
        (PUT, "uri", "urn:vgpumgr:domain:2/../x"),
        (ATTACH, "xml", None),
        (ATTACH, "xml", "\0"),
        (ATTACH, "xml", "<disk type='file'><source file='/etc/shadow'/><target dev='vdz'/></disk>"),
        (ATTACH, "xml", "<filesystem type='mount'><source dir='/'/><target dir='x'/></filesystem>"),
        (ATTACH, "xml", MDEV + MDEV),
        (ATTACH, "xml", MDEV.replace("</hostdev>", "<rom file='/etc/shadow'/></hostdev>")),
        (ATTACH, "xml", MDEV.replace("mode='subsystem'", "mode='capabilities'")),
        (ATTACH, "xml", MDEV.replace("type='mdev'", "type='usb'")),
        (ATTACH, "xml", "<!DOCTYPE x [<!ENTITY e SYSTEM 'file:///etc/shadow'>]>" + MDEV),
    ],
)
def test_a_wrong_key_is_named(step: dict[str, object], key: str, value: object) -> None:
    with pytest.raises(Refusal, match=rf"step\.{key} must be ") as caught:
        parse_step({**step, key: value})
    assert caught.value.kind == "BadRequest"


@pytest.mark.parametrize("step", [None, [], "attach_device"])
def test_what_is_no_object_is_a_bad_request(step: object) -> None:
    with pytest.raises(Refusal, match="step must be an object"):
        parse_step(step)
