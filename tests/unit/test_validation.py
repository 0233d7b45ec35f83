"""What we render is held against the real libvirt of this machine."""

from __future__ import annotations

import subprocess
import sys

import libvirt
import pytest

from vgpumgr import templates, validation
from vgpumgr.core.evidence.preflight import version_text
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.errors import TemplateError
from vgpumgr.names import MdevUuid, PciAddress

SOURCES: tuple[Mdev | Vf, ...] = (
    Mdev(MdevUuid("9e0d0000-0000-4000-8000-000000000001")),
    Vf(PciAddress("0000:41:00.4")),
)
MDEV, VF = (
    templates.render_hostdev(Hostdev(source=source, alias=f"ua-vgpu{number}", managed=False))
    for number, source in enumerate(SOURCES)
)
NO_SCHEMAS = 'mount -t tmpfs none /usr/share/libvirt/schemas && exec $0 -c "$1"'
VALIDATED = """
from vgpumgr import errors, validation
try:
    validation.validate([("vgpu0", "")])
except errors.UsageError as error:
    print(error, *error.details, error.hint, sep="\\n")
"""


def test_a_definition_is_accepted_with_the_version_of_libvirt() -> None:
    version = version_text(libvirt.getVersion())
    one, other = "the hostdev of vgpu0", "the hostdev of vgpu1"
    assert validation.validate([("vgpu0", MDEV)]) == (version, (one,))
    both = validation.validate([("vgpu0", MDEV), ("vgpu1", VF)])
    assert both == (version, (one, other, "a domain with all of them"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
@pytest.mark.parametrize("port", [None, 7])
@pytest.mark.parametrize("managed", [False, True])
def test_every_hostdev_that_is_rendered_is_accepted(source: Mdev | Vf, port: int | None, managed: bool) -> None:
    for alias in (None, "ua-vgpu0"):
        device = Hostdev(source=source, alias=alias, managed=managed)
        assert validation.validate([("vgpu0", templates.render_hostdev(device, port=port))])


@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("model='vfio-pci'", "model='vfio'", "failed to validate against schema"),
        ("9e0d0000-", "9e0d-", "failed to validate against schema"),
        ("</source>", "</source><sources/>", "failed to validate against schema"),
        ("ua-vgpu0", "ua-vgpu 0", "failed to validate against schema"),
        ("</source>", "", "mismatch"),
    ],
)
def test_what_libvirt_refuses_is_named_with_its_own_words(good: str, bad: str, words: str) -> None:
    assert good in MDEV
    with pytest.raises(TemplateError, match=r"^libvirt [0-9.]+ refuses the hostdev of vgpu0$") as raised:
        validation.validate([("vgpu1", VF), ("vgpu0", MDEV.replace(good, bad))])
    assert words in "\n".join(raised.value.details)


def test_hostdevs_that_libvirt_accepts_one_by_one_may_be_refused_together() -> None:
    with pytest.raises(TemplateError, match="refuses a domain with all of them") as raised:
        validation.validate([("vgpu0", MDEV), ("vgpu1", MDEV)])
    assert raised.value.details == ("XML error: Hostdev already exists in the domain configuration",)


def test_a_validation_leaves_no_domain_behind() -> None:
    connection = libvirt.open("test:///default")
    try:
        before = [domain.name() for domain in connection.listAllDomains()]
        validation.validate([("vgpu0", MDEV)])
        assert [domain.name() for domain in connection.listAllDomains()] == before
    finally:
        connection.close()


@pytest.mark.lab
def test_a_libvirt_without_its_schemas_says_that_it_cannot_judge() -> None:
    """In a mount namespace of its own the schemas are hidden. No hostdev is blamed for it."""
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", NO_SCHEMAS, sys.executable, VALIDATED],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    said, words, hint = done.stdout.splitlines()
    assert said == f"libvirt {version_text(libvirt.getVersion())} on this machine cannot validate anything"
    assert "/usr/share/libvirt/schemas/domain.rng" in words
    assert "libvirt0" in hint
