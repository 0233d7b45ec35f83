"""Who has the key of a pinned login sends steps, and no other program: what they can do is what vgpumgr does (found: breaker F1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.fakehost import CONF, FakeHost, execute, make_entry, make_modprobe_step, make_step
from vgpumgr.core.driver import modprobe
from vgpumgr.core.driver.modprobe import ModprobeFile
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO
from vgpumgr.host.steps.module_options import why_not
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from pathlib import Path

OURS = 'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x00000011"\n'
THEIRS = 'install drm /bin/true\noptions nvidia NVreg_EnableGpuFirmware=0 NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmX=1"\n'


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("/etc/modprobe.d/evil.conf", None, "install nvidia /bin/touch /tmp/x\n"),
        ("/etc/modprobe.d/evil.conf", None, OURS),
        (CONF, None, OURS + "install nvidia /bin/touch /tmp/x\n"),
        (CONF, None, "install nvidia /bin/touch /tmp/x\n" + OURS),
        (CONF, OURS, OURS.replace("options nvidia", "options drm")),
        (CONF, OURS, OURS.replace("\n", " NVreg_ModifyDeviceFiles=1\n")),
        (CONF, OURS, OURS.replace('RmPVMRL=0x00000011"', 'RmPVMRL=0x00000011;RmOther=1"')),
        (CONF, OURS, OURS.replace("0x00000011", "0x11 install")),
        (CONF, OURS, OURS.rstrip() + "\\\ninstall nvidia /bin/x\n"),
        (CONF, None, "# a comment \\\ninstall nvidia /bin/x\n"),
        ("/etc/modprobe.d/site.conf", THEIRS, None),
        ("/etc/modprobe.d/site.conf", THEIRS, THEIRS.replace("/bin/true", "/bin/touch /tmp/x")),
        ("/etc/modprobe.d/site.conf", THEIRS, THEIRS.replace("install drm /bin/true\n", "")),
        ("/etc/modprobe.d/site.conf", THEIRS, THEIRS.replace("RmX=1", "RmX=2")),
        ("/etc/modprobe.d/site.conf", "options nvidia a=1\n", "options nvidia a=1\n" + OURS),
        (CONF, THEIRS, None),
    ],
)
def test_a_file_of_the_module_s_options_changes_in_our_dwords_alone(
    host: FakeHost, path: str, before: str | None, after: str | None
) -> None:
    if before is not None:
        host.path(path).write_text(before)
    trace = host.tree()
    answer = execute(host, make_modprobe_step(path=path, text=after, expect=before))
    assert answer["err"]["kind"] == "BadRequest"
    assert host.tree() == trace


LINES = st.lists(
    st.sampled_from(
        [
            "",
            "# options nvidia x",
            "install nvidia /bin/true",
            "options nvidia NVreg_X=1",
            'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmPVMRL=0x00000001;pci=0000:81:00.0;RmA=1"',
            'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:81:00.0;RmB=2;" NVreg_X=1',
            'options nvidia NVreg_RegistryDwordsPerDevice=""',
            "options nvidia NVreg_RegistryDwordsPerDevice=pci=0000:81:00.0;RmPVMRL=3",
            'options nvidia \\\n  NVreg_RegistryDwordsPerDevice="pci=0000:41:00.0;RmC=1;RmPVMRL=0x11"',
        ]
    ),
    max_size=4,
)


@given(
    mine=LINES,
    theirs=LINES,
    end=st.sampled_from(["", "\n"]),
    value=st.integers(0, 2**32 - 1),
    gpu=st.sampled_from(["41", "81", "c1"]),
)
def test_what_vgpumgr_itself_writes_there_is_allowed_and_so_is_its_undo(
    mine: list[str], theirs: list[str], end: str, value: int, gpu: str
) -> None:
    files = [
        ModprobeFile(path=path, text="\n".join(lines) + end)
        for path, lines in ((CONF, mine), ("/etc/modprobe.d/site.conf", theirs))
        if lines
    ]
    edit = modprobe.merge(files, PciAddress(f"0000:{gpu}:00.0"), value)
    assert why_not(edit.path, edit.before, edit.text) is None
    assert why_not(edit.path, edit.text, edit.before) is None


@pytest.mark.parametrize("verb", ["attach_device", "plug_device"])
@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_only_a_vgpu_of_the_ledger_goes_into_a_vm(tmp_path: Path, framework: str, verb: str) -> None:
    """Neither another host device nor somebody else's vGPU."""
    host = FakeHost.build(tmp_path, framework=framework)
    step = make_step(framework)
    address = f"uuid='{step['uuid']}'"
    kind = "type='mdev' model='vfio-pci'"
    if step["uuid"] is None:
        domain, bus, rest = step["parent"].split(":")
        address = f"domain='0x{domain}' bus='0x{bus}' slot='0x{rest[:2]}' function='0x{rest[3]}'"
        kind = "type='pci' managed='no'"
    xml = f"<hostdev mode='subsystem' {kind}>\n<source>\n<address {address}/>\n</source>\n</hostdev>"
    wanted = {"verb": verb, "vm_uuid": step["vm_uuid"], "xml": xml}
    answer = execute(host, wanted)
    assert (answer["err"]["kind"], answer["err"]["expected"]) == ("Changed", "a vGPU of the host's ledger")
    host.put_ledger(make_entry(framework))
    assert execute(host, wanted).get("err", {}).get("kind") != "Changed"


def test_only_a_vm_that_has_a_vgpu_of_ours_is_started(tmp_path: Path) -> None:
    host = FakeHost.build(tmp_path, framework=MDEV_VF)
    wanted = {"verb": "start_domain", "vm_uuid": make_step(MDEV_VF)["vm_uuid"]}
    assert execute(host, wanted)["err"]["expected"] == "a VM of the host's ledger"
    host.put_ledger(make_entry(MDEV_VF))
    assert execute(host, wanted).get("err", {}).get("kind") != "Changed"


def of_pci(address: str) -> str:
    domain, bus, rest = address.split(":")
    return f"type='pci' managed='no'><source><address domain='0x{domain}' bus='0x{bus}' slot='0x{rest[:2]}' function='0x{rest[3]}'/>"


def of_mdev(uuid: str) -> str:
    return f"type='mdev' model='vfio-pci'><source><address uuid='{uuid}'/>"


@pytest.mark.parametrize("verb", ["detach_device", "unplug_device"])
def test_nothing_but_vgpus_comes_out_of_a_vm(tmp_path: Path, verb: str) -> None:
    """Neither a network card, nor its function, nor a whole GPU, nor another vendor's mdev; a vGPU, or what the host does not have, does."""
    host = FakeHost.build(tmp_path, framework=MDEV_VF)
    for address in ("0000:05:00.0", "0000:05:00.1"):
        host.add_function(address, vendor="0x15b3", kind="0x020000")
    host.link(f"{host.function('0000:05:00.1')}/physfn", host.function("0000:05:00.0"))
    theirs, ours = ("9e0d0000-0000-4000-8000-00000000000" + end for end in "12")
    host.link(f"/sys/bus/mdev/devices/{theirs}", f"{host.function('0000:05:00.0')}/{theirs}")
    host.put(f"{host.function('0000:05:00.0')}/{theirs}/mdev_type", "i915")
    host.make_mdev("0000:41:00.4", 560, ours)
    for device, allowed in (
        (of_pci("0000:05:00.0"), False),
        (of_pci("0000:05:00.1"), False),
        (of_pci("0000:41:00.0"), False),
        (of_mdev(theirs), False),
        (of_pci("0000:41:00.4"), True),
        (of_pci("0000:77:00.4"), True),
        (of_mdev(ours), True),
    ):
        xml = f"<hostdev mode='subsystem' {device}</source></hostdev>"
        answer = execute(host, {"verb": verb, "vm_uuid": make_step(MDEV_VF)["vm_uuid"], "xml": xml})
        assert (answer.get("err", {}).get("expected") == "a vGPU") is not allowed, device
    host.put_ledger(make_entry(VENDOR_VFIO, parent="0000:05:00.1"))  # another card is where it was
    xml = f"<hostdev mode='subsystem' {of_pci('0000:05:00.1')}</source></hostdev>"
    answer = execute(host, {"verb": verb, "vm_uuid": make_step(MDEV_VF)["vm_uuid"], "xml": xml})
    assert answer.get("err", {}).get("expected") != "a vGPU"


def test_an_idle_vgpu_that_nobody_entered_can_be_entered_as_adopt_does(tmp_path: Path) -> None:
    """docs/logins.md says so."""
    host = FakeHost.build(tmp_path, framework=MDEV_VF)
    step = make_step(MDEV_VF, expect="same")
    host.make_mdev(step["parent"], step["type_id"], step["uuid"])
    assert "ok" in execute(host, step)
    assert [entry["uuid"] for entry in host.entries()] == [step["uuid"]]
