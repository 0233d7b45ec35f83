"""Each illness is planted on one host, and doctor names it; a healthy host has none; and what mends it does."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.near import NearHost, document
from tests.lab_fixtures import ONE
from tests.model.fleet import vm_uuid
from tests.unit.host.fakehost import stat_line
from vgpumgr.host.facts.gpu import SRIOV_MANAGE
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.spec import FabricSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.acceptance.near import Near, Sites
    from tests.lab_fixtures import LabFactory
    from tests.model.libvirt_double import Vm
    from tests.model.machine import Machine

GPU, OTHER = "0000:41:00.0", "0000:81:00.0"
VF, OTHER_VF = "0000:41:00.4", "0000:81:00.4"
HOSTS = {
    "kvm01": NearHost(vms=("vm01", "vm02", "vm03")),
    "kvm02": NearHost(vms=("vm11",), board="L40S", framework=VENDOR_VFIO),
}
UNITS = ("nvidia-vgpud", "nvidia-vgpu-mgr", "libvirt-guests")
UUID = "6f1b2a3c-0000-4000-8000-000000000001"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ward:
    """Two hosts with all that a vGPU host has. What is put into a host's root is taken out again."""

    near: Near
    put: list[Any] = field(default_factory=list)

    def machine(self, host: str) -> Machine:
        return self.near.machines[host]

    def write(self, host: str, path: str, text: str = "", mode: int = 0o644) -> None:
        root = self.machine(host).root
        file = root / path.lstrip("/")
        at = file
        while not at.parent.exists():
            at = at.parent
        if not file.exists():
            self.put.append(at)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    def fault(self, host: str, name: str) -> None:
        self.machine(host).driver.set_fault(name)
        self.machine(host).show()

    def units(self, host: str, **states: tuple[str, str]) -> None:
        """What systemctl shows: by unit its ActiveState and UnitFileState."""
        blocks = [
            f"Id={name}.service\nLoadState=loaded\nActiveState={active}\nUnitFileState={of_file}\n"
            for name in UNITS
            for active, of_file in [states.get(name.replace("-", "_"), ("active", "enabled"))]
        ]
        self.write(host, "/run/systemd/system/x")
        shown = "\n".join(blocks)
        self.write(host, "/usr/bin/systemctl", f"#!/bin/sh\ncat <<'END'\n{shown}\nEND\n", 0o755)

    def run(self, *words: str, code: int = 0) -> None:
        vgpumgr(self.near, *words, code=code)

    def vm(self, host: str, name: str) -> Vm:
        return self.machine(host).libvirt.vms[vm_uuid(host, name)]

    def attach(self, vm: str = "vm01") -> Vm:
        self.run("attach", vm, "--profile", "4Q", "--on", "kvm01")
        return self.vm("kvm01", vm)

    def ill(self, host: str, code: int = 5) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = document(self.near, "doctor", host, code=code)["illnesses"]
        return found


@pytest.fixture
def ward(near_site: Sites) -> Iterator[Ward]:
    ward = Ward(near=near_site(HOSTS))
    for host in HOSTS:
        ward.write(host, SRIOV_MANAGE)
        ward.units(host)
    yield ward
    ward.near.dead.clear()
    for host in HOSTS:
        ward.machine(host).let_go()
    ward.run("host", "uninstall", *HOSTS)
    for path in reversed(ward.put):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def _mdevctl(ward: Ward, host: str, parent: str, uuid: str, start: str) -> None:
    text = json.dumps({"mdev_type": "nvidia-560", "start": start, "attrs": []})
    ward.write(host, f"/etc/mdevctl.d/{parent}/{uuid}", text)


def _ours(ward: Ward) -> None:
    ward.run("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
    (entry,) = ward.machine("kvm01").ledger()
    _mdevctl(ward, "kvm01", GPU, entry["uuid"], "manual")


def _functions_off(ward: Ward) -> None:
    ward.machine("kvm01").driver.set_vfs(GPU, on=False)
    ward.machine("kvm01").show()
    ward.write("kvm01", "/proc/77/stat", stat_line(77, "nv-hostengine", "S") + "\n")
    fd = ward.machine("kvm01").root / "proc/77/fd"
    fd.mkdir()
    (fd / "4").symlink_to("/dev/nvidia0")


def _restored(ward: Ward) -> None:
    ward.run("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
    ward.run("host", "install", "kvm01", "--restore")
    row = {"vm_name": "vm01", "slot": "vgpu0", "parent": VF, "type_name": "A40-4Q", "missing": "EIO", "note": None}
    boot = ward.machine("kvm01").boot
    text = {"boot": boot, "at": "2026-11-21T00:00:00Z", "problem": None, "vgpus": [row]}
    ward.write("kvm01", "/var/lib/vgpumgr/restored.json", json.dumps(text))


def _altered(ward: Ward) -> None:
    ward.run("host", "install", "kvm01")
    (ward.machine("kvm01").root / "opt/vgpumgr-host/dispatcher").chmod(0o666)


def _gone(ward: Ward) -> None:
    ward.run("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
    ward.machine("kvm01").reboot()


def _without_ledger(ward: Ward) -> None:
    ward.run("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
    ward.machine("kvm01").lose_ledger()


def _copied(ward: Ward) -> None:
    ward.run("attach", "vm01", "--profile", "4Q", "--on", "kvm01")
    vms = ward.machine("kvm01").libvirt.vms
    original, copy = vms[vm_uuid("kvm01", "vm01")], vms[vm_uuid("kvm01", "vm02")]
    copy.inactive = original.inactive.replace(original.uuid, copy.uuid, 1).replace("vm01", "vm02", 1)


def _managed(ward: Ward) -> None:
    ward.run("attach", "vm11", "--profile", "8Q", "--on", "kvm02", "--even-if-it-will-not-start")
    vm = ward.machine("kvm02").libvirt.vms[vm_uuid("kvm02", "vm11")]
    vm.inactive = vm.inactive.replace("managed='no'", "managed='yes'").replace('managed="no"', 'managed="yes"')


def _lost(ward: Ward) -> None:
    before = ward.vm("kvm01", "vm01").inactive
    ward.attach().inactive = before


def _undefined(ward: Ward) -> None:
    del ward.machine("kvm01").libvirt.vms[ward.attach().uuid]


def _reverted(ward: Ward) -> None:
    vm = ward.attach()
    backup = vm.inactive
    ward.run("detach", "vm01", "--on", "kvm01", "--yes")
    vm.inactive = backup


def _moved(ward: Ward) -> None:
    vm = ward.attach()
    vm.inactive = vm.inactive.replace(ward.machine("kvm01").id, "f" * 32)


def _shared(ward: Ward, uuid: str | None = None) -> None:
    """Another VM's definition has the same device, or a device that nobody has."""
    found = re.search(r"<hostdev.*?</hostdev>", ward.attach().inactive, re.DOTALL)
    assert found is not None
    device = found[0] if uuid is None else re.sub(r"uuid=.[0-9a-f-]{36}.", f"uuid='{uuid}'", found[0])
    device = re.sub(r"<alias[^>]*>", "", device)
    other = ward.vm("kvm01", "vm02")
    other.inactive = other.inactive.replace("</devices>", f"{device}</devices>")


def _foreign_on_cordoned(ward: Ward) -> None:
    _foreign(ward)
    ward.run("cordon", "kvm01", "--reason", "PSU")


def _foreign(ward: Ward) -> None:
    gpu = ward.machine("kvm01").gpus()[0]
    ward.machine("kvm01").make(gpu, 1, gpu.board.types[0].id, UUID)


def _lost_by_driver(ward: Ward) -> None:
    _foreign(ward)
    with ward.machine("kvm01").driver.reading() as state:
        state.gpus[0].lost.append(state.gpus[0].vgpus.pop())
    ward.fault("kvm01", "own-places")  # it shows what has changed


def _old_libvirt(ward: Ward) -> None:
    ward.run("attach", "vm11", "--profile", "8Q", "--on", "kvm02")
    ward.machine("kvm02").libvirt.version = 9_000_000


def _saved(ward: Ward) -> None:
    before = ward.vm("kvm01", "vm01").inactive
    ward.attach().image = before


def _started_before(ward: Ward) -> None:
    vm = ward.vm("kvm01", "vm01")
    vm.live = vm.inactive
    ward.attach()


def _waiting(ward: Ward) -> None:
    for vm in ("vm01", "vm02"):
        ward.run("attach", vm, "--profile", "48Q", "--on", "kvm01")
    ward.run("attach", "vm03", "--profile", "8Q", "--wait", "--on", "kvm01")


def _set(vm: Vm, **values: Any) -> None:
    for name, value in values.items():
        setattr(vm, name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plant:
    """`mends`: the words of its command run on the host by this; None: only a person can."""

    plant: Callable[[Ward], None]
    host: str = "kvm01"
    severity: str = "critical"
    gpu: str | None = None
    says: str = ""
    command: str | None = None
    runs: bool = False


PLANTS: dict[str, Plant] = {
    "other-driver": Plant(plant=lambda ward: ward.fault("kvm01", f"bound:{GPU}:nouveau"), gpu=GPU, says="nouveau"),
    "other-driver nova": Plant(
        plant=lambda ward: ward.fault("kvm02", f"bound:{OTHER}:NovaCore"), host="kvm02", gpu=OTHER
    ),
    "unbound": Plant(
        plant=lambda ward: ward.fault("kvm01", f"bound:{GPU}:none"),
        gpu=GPU,
        command=f"sh -c 'echo {GPU} > /sys/bus/pci/drivers/nvidia/bind'",
    ),
    "passed-through": Plant(
        plant=lambda ward: ward.fault("kvm01", f"bound:{GPU}:vfio-pci"), gpu=GPU, severity="notice"
    ),
    "function-taken": Plant(
        plant=lambda ward: ward.fault("kvm02", f"bound:{VF}:vfio-pci"),
        host="kvm02",
        gpu=VF,
        says=f"{SRIOV_MANAGE} -d and -e {GPU}",
    ),
    "function-taken by none": Plant(plant=lambda ward: ward.fault("kvm01", f"bound:{VF}:none"), gpu=VF),
    "no-functions": Plant(
        plant=_functions_off,
        gpu=GPU,
        says="stop nv-hostengine (pid 77 has /dev/nvidia0 open), then",
        command=f"{SRIOV_MANAGE} -e {GPU}",
    ),
    "versions": Plant(plant=lambda ward: ward.write("kvm01", "/usr/lib64/libnvidia-ml.so.999.12"), says="999.12"),
    "logged": Plant(
        plant=lambda ward: ward.write("kvm01", "/dev/kmsg", "4,1,2,-;NVRM: Xid (PCI:0000:41:00): 95, pid=1\n"),
        severity="warning",
        says="cannot be corrected",
    ),
    "no-vgpu-module": Plant(
        plant=lambda ward: ward.fault("kvm02", "no-vgpu-module"), host="kvm02", command="modprobe nvidia_vgpu_vfio"
    ),
    "iommu-off": Plant(plant=lambda ward: ward.fault("kvm01", "iommu-off"), says="firmware"),
    "sriov-off": Plant(plant=lambda ward: ward.fault("kvm01", "sriov-off"), gpu=GPU, says="firmware"),
    "unit": Plant(
        plant=lambda ward: ward.units("kvm01", nvidia_vgpud=("failed", "enabled")),
        command="systemctl restart nvidia-vgpud",
    ),
    "unit that ended": Plant(
        plant=lambda ward: ward.units("kvm01", nvidia_vgpu_mgr=("inactive", "enabled")),
        command="systemctl restart nvidia-vgpu-mgr",
    ),
    "unit-off": Plant(
        plant=lambda ward: ward.units("kvm01", nvidia_vgpud=("inactive", "disabled")),
        severity="warning",
        command="systemctl enable nvidia-vgpud",
    ),
    "installation": Plant(plant=_altered, command="vgpumgr host install kvm01", runs=True),
    "restore": Plant(plant=_restored, severity="warning", command="vgpumgr reconcile kvm01 --start"),
    "suspend": Plant(
        plant=lambda ward: ward.write(
            "kvm01", "/etc/default/libvirt-guests", "#ON_SHUTDOWN=shutdown\nON_SHUTDOWN='suspend'\n"
        ),
        severity="warning",
        says="ON_SHUTDOWN=shutdown",
    ),
    "suspend by default": Plant(
        plant=lambda ward: ward.write("kvm01", "/usr/libexec/libvirt-guests.sh", "ON_SHUTDOWN=suspend\n"),
        severity="warning",
    ),
    "mdevctl": Plant(
        plant=lambda ward: _mdevctl(ward, "kvm01", VF, UUID, "auto"),
        severity="warning",
        command=f"mdevctl undefine --uuid {UUID} --parent {VF}",
    ),
    "mdevctl of ours": Plant(plant=_ours),
    "mdevctl of before": Plant(
        plant=lambda ward: _mdevctl(ward, "kvm02", VF, UUID, "auto"), host="kvm02", severity="notice"
    ),
    "gone": Plant(plant=_gone, command="vgpumgr attach vm01 --profile 4Q --slot vgpu0 --on kvm01", runs=True),
    "ledger-missing": Plant(plant=_without_ledger, severity="warning", command="vgpumgr adopt kvm01", runs=True),
    "copied": Plant(plant=_copied, severity="warning", command="vgpumgr detach vm02 --on kvm01", runs=True),
    "managed": Plant(plant=_managed, host="kvm02"),
    "lost": Plant(plant=_lost, severity="warning", command="vgpumgr detach vm01 --slot vgpu0 --on kvm01", runs=True),
    "lost with its VM": Plant(plant=_undefined, severity="warning", runs=True),
    "reverted": Plant(plant=_reverted, command="vgpumgr attach vm01 --profile 4Q --slot vgpu0 --on kvm01", runs=True),
    "moved": Plant(plant=_moved, severity="warning", says="--replace"),
    "shared": Plant(plant=_shared),
    "no-such-mdev": Plant(plant=lambda ward: _shared(ward, UUID), command="virsh edit vm02"),
    "unreadable": Plant(plant=lambda ward: _set(ward.attach(), inactive="<domain"), severity="warning"),
    "blocked-write": Plant(plant=lambda ward: ward.machine("kvm01").hang(ward.machine("kvm01").gpus()[0])),
    "taken": Plant(plant=_foreign_on_cordoned, severity="warning"),
    "lost-by-driver": Plant(plant=_lost_by_driver, says="reboot"),
    "will-not-start": Plant(plant=_old_libvirt, host="kvm02", says="9.7"),
    "saved-image": Plant(plant=_saved, severity="warning", command="virsh managedsave-remove vm01"),
    "start-failed": Plant(
        plant=lambda ward: _set(ward.attach(), start_failed=True), command="vgpumgr reconcile kvm01 --start", runs=True
    ),
    "cordoned": Plant(
        plant=lambda ward: ward.run("cordon", "kvm01", "--reason", "PSU"),
        severity="notice",
        command="vgpumgr uncordon kvm01",
        runs=True,
    ),
    "pending-restart": Plant(plant=_started_before, severity="notice"),
    "waiting": Plant(plant=_waiting, severity="notice", command="vgpumgr waiting kvm01"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_doctor_names_what_was_planted_and_its_command_mends_it(ward: Ward, name: str) -> None:
    one = PLANTS[name]
    one.plant(ward)
    kind = name.partition(" ")[0]
    found = [row for row in ward.ill(one.host, 0 if one.severity == "notice" else 5) if row["kind"] == kind]
    assert found, name
    row = found[0]
    assert (row["host"], row["severity"]) == (one.host, one.severity)
    assert one.gpu in (None, row["gpu"])
    assert one.says in row["what"] + row["mend"]
    assert one.command in (None, row["command"])
    if one.runs:
        ward.run(*row["command"].split()[1:], "--yes")
        assert kind not in {row["kind"] for row in ward.ill(one.host, 0)}


def test_a_healthy_fleet_has_no_illness(ward: Ward) -> None:
    ward.run("attach", "vm01", "vm02", "--profile", "4Q", "--on", "kvm01")
    ward.run("attach", "vm11", "--profile", "8Q", "--on", "kvm02")
    assert vgpumgr(ward.near, "doctor").out == "nothing is wrong on 2 hosts\n"
    ran = vgpumgr(ward.near, "doctor", "-o", "nagios")
    assert (
        ran.out
        == "VGPUMGR OK - nothing is wrong on 2 hosts|hosts=2;;;0 unread=0;;;0 critical=0;;;0 warning=0;;;0 notice=0;;;0\n"
    )


def test_a_plugin_of_nagios_has_its_own_codes(ward: Ward) -> None:
    ward.near.dead.add("kvm02")
    assert vgpumgr(ward.near, "doctor", "-o", "nagios", code=3).out.startswith("VGPUMGR UNKNOWN - not read: kvm02|")
    ward.write("kvm01", "/etc/sysconfig/libvirt-guests", "ON_SHUTDOWN=suspend\n")
    assert vgpumgr(ward.near, "doctor", "-o", "nagios", code=1).out.startswith("VGPUMGR WARNING - kvm01: suspend; not")
    ward.fault("kvm01", "iommu-off")
    assert vgpumgr(ward.near, "doctor", "-o", "nagios", code=2).out.startswith("VGPUMGR CRITICAL - kvm01: iommu-off;")
    assert vgpumgr(ward.near, "doctor", "nosuch", "-o", "nagios", code=3).out.startswith("VGPUMGR UNKNOWN - ")


def test_what_cannot_be_read_is_said_and_is_no_guess(ward: Ward) -> None:
    _mdevctl(ward, "kvm01", VF, UUID, "auto")
    (ward.machine("kvm01").root / f"etc/mdevctl.d/{VF}/{UUID}").write_text("[")
    (row,) = ward.ill("kvm01", 0)
    assert (row["kind"], row["severity"]) == ("unread", "notice")


def test_this_machine_is_examined_without_any_host(ward: Ward, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ward.near.dead.update(HOSTS)
    monkeypatch.setenv("HOME", str(tmp_path))
    (row,) = [
        row for row in document(ward.near, "doctor", "--self", code=5)["illnesses"] if row["severity"] != "notice"
    ]
    assert (row["kind"], row["command"]) == ("known-hosts", "ssh-keyscan HOST")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/known_hosts").touch()
    found = document(ward.near, "doctor", "--self")["illnesses"]
    assert {row["host"] for row in found} <= {None}
    assert vgpumgr(ward.near, "doctor", "--self", "-o", "nagios").out.startswith("VGPUMGR OK - ")
    assert "--self" in vgpumgr(ward.near, "doctor", "kvm01", "--self", code=2).err


def test_a_host_without_files_of_ours_is_sent_to_the_doctor(ward: Ward) -> None:
    assert "`vgpumgr doctor kvm01` says what is wrong" in vgpumgr(ward.near, "host", "check", "kvm01", code=5).err


# Each board of the built-in specs, and a board on a fabric that is set up.
BOARDS = {
    "T4": NearHost(vms=(), board="T4", framework=MDEV_PF),
    "A40": NearHost(vms=(), board="A40", framework=MDEV_VF),
    "A100": NearHost(vms=(), board="A100", framework=MDEV_VF),
    "A100 in MIG mode": NearHost(vms=(), board="A100", framework=MDEV_VF, in_mig=True),
    "L40S": NearHost(vms=(), board="L40S", framework=VENDOR_VFIO),
    "H100": NearHost(vms=(), board="H100", framework=VENDOR_VFIO),
    "RTX PRO 6000": NearHost(vms=(), board="RTXPRO6000", framework=VENDOR_VFIO),
    "H200": NearHost(
        vms=(), board="H200X", framework=VENDOR_VFIO, fabric=FabricSpec(switches=4, manager="running", mode=2)
    ),
}


@pytest.mark.parametrize("board", BOARDS)
def test_no_board_is_ill_by_itself(near_site: Sites, board: str) -> None:
    """Nor is a host without systemd, where nothing is known of units."""
    assert document(near_site({"kvm01": BOARDS[board]}), "doctor")["illnesses"] == []


SYSTEMCTL = r"""#!/bin/sh
printf "Id=nvidia-vgpu-mgr.service\nLoadState=loaded\nActiveState=failed\nUnitFileState=enabled\n"
"""


@pytest.mark.lab
def test_a_lab_shows_each_kind_of_illness(lab_factory: LabFactory) -> None:
    """All at once, on a host with real processes and its own /etc; it is well again without them."""
    lab = lab_factory(ONE, own="files are put where a host has its programs")

    def ill(code: int) -> set[str]:
        found = vgpumgr(lab, "doctor", "kvm01", "-o", "json", code=code).document["illnesses"]
        return {row["kind"] for row in found}

    assert ill(0) == set()
    text = json.dumps({"mdev_type": "nvidia-560", "start": "auto"})
    lab.must(
        "kvm01",
        f"mkdir -p /etc/mdevctl.d/{OTHER_VF} /run/systemd/system /etc/default"
        f" && echo '{text}' >/etc/mdevctl.d/{OTHER_VF}/{UUID} && echo ON_SHUTDOWN=suspend >/etc/default/libvirt-guests"
        f" && printf %s '{SYSTEMCTL}' >/usr/bin/systemctl && chmod 755 /usr/bin/systemctl"
        " && touch /usr/lib64/libnvidia-ml.so.999.12",
    )
    lab.control("kvm01", "fault", name=f"bound:{VF}:vfio-pci")
    assert ill(5) == {"mdevctl", "suspend", "unit", "versions", "function-taken"}
    lab.control("kvm01", "fault", name=f"bound:{GPU}:nouveau")
    assert "other-driver" in ill(5)
    lab.control("kvm01", "clear")
    assert ill(5) == {"mdevctl", "suspend", "unit", "versions"}
