"""`render --validate`: libvirt itself says whether it accepts what is rendered."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import libvirt
import pytest

from tests.acceptance.command import vgpumgr
from vgpumgr import templates
from vgpumgr.core.evidence.preflight import version_text

if TYPE_CHECKING:
    from tests.acceptance.near import Near

VM = "vm01"
RENDER = ("render", VM, "--on", "kvm01")


@pytest.fixture
def attached(near_host: Near) -> Near:
    for slot in ("vgpu0", "vgpu1"):
        vgpumgr(near_host, "attach", VM, "--profile", "4Q", "--on", "kvm01", "--slot", slot)
    return near_host


def test_each_document_is_named_with_the_libvirt_that_accepts_it_and_stdout_is_as_without(attached: Near) -> None:
    version = version_text(libvirt.getVersion())
    plain, validated = vgpumgr(attached, *RENDER), vgpumgr(attached, *RENDER, "--validate")
    assert validated.out == plain.out
    assert validated.err.splitlines()[-3:] == [
        f"libvirt {version} accepts the hostdev of vgpu0",
        f"libvirt {version} accepts the hostdev of vgpu1",
        f"libvirt {version} accepts a domain with all of them",
    ]
    assert "libvirt" not in plain.err
    asked = [vgpumgr(attached, *RENDER, *more, "-o", "json").document["validated_by"] for more in ((), ("--validate",))]
    assert asked == [None, version]


def test_a_refusal_is_an_error_in_libvirts_words_and_nothing_is_printed(
    attached: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "render_hostdev", lambda _: "<hostdev mode='subsystem' type='mdevs'/>")
    refused = vgpumgr(attached, *RENDER, "--validate", code=2)
    assert refused.out == ""
    assert "refuses the hostdev of vgpu0" in refused.err
    assert "XML document failed to validate against schema" in refused.err


def test_without_libvirt_python_no_host_is_read_and_the_error_says_what_to_install(
    attached: Near, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "vgpumgr.validation", raising=False)
    monkeypatch.setitem(sys.modules, "libvirt", None)
    refused = vgpumgr(attached, *RENDER, "--validate", code=2)
    assert "--validate needs libvirt-python" in refused.err
    assert f"{sys.executable} -m pip install libvirt-python" in refused.err
    assert attached.links == []
    vgpumgr(attached, *RENDER)
