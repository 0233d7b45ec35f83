"""What many hosts have alike is told once: all names, what they have in common, and one way out."""

from __future__ import annotations

from vgpumgr.cli.text.alike import FEWEST, Alike, Failed, findings, grouped, of_tasks, within
from vgpumgr.core.model.view import Finding
from vgpumgr.errors import (
    Busy,
    HostKeyRefused,
    KeyScan,
    LedgerBroken,
    NoCapacity,
    NotReady,
    UnknownHost,
    Unreachable,
    VmNotSeen,
)
from vgpumgr.names import DEFAULT_SLOT, HostName
from vgpumgr.wording import Command, GpuAddress, Own, say

FILE = "/root/.ssh/known_hosts"


def unknown_key(number: int, *, port: int = 22, through: str = "") -> HostKeyRefused:
    address = f"10.0.0.{number}"
    name = address if port == 22 else f"[{address}]:{port}"
    error = HostKeyRefused(
        f"kvm{number:02}",
        "kex",
        say("{} has no key of {}; the host offers ssh-ed25519 {}", FILE, Own(name), Own(f"SHA256:abc{number}")),
        hint=f"compare the fingerprint on the host's console (…), then: {through}ssh-keyscan -p {port} {address} >> {FILE}",
    )
    error.scan = KeyScan(
        address=address, port=port, file=FILE, through=through, key_file="/etc/ssh/ssh_host_ed25519_key.pub"
    )
    return error


def one(errors: list[HostKeyRefused] | list[Unreachable]) -> Alike:
    (found,) = grouped(errors)
    assert isinstance(found, Alike)
    return found


def test_forty_unknown_host_keys_are_one_line_and_one_command() -> None:
    found = one([unknown_key(number) for number in range(1, 41)])
    assert found.message == f"40 hosts: kex: {FILE} has no key of …; the host offers ssh-ed25519 …"
    assert " ".join(found.lines).split() == [f"kvm{number:02}" for number in range(1, 41)]
    assert max(map(len, found.lines)) <= 100
    addresses = " ".join(f"10.0.0.{number}" for number in range(1, 41))
    assert found.hint == (
        f"ssh-keyscan -p 22 {addresses} > new_keys; compare the fingerprints that `ssh-keygen -lf new_keys` shows on the hosts' "
        f"consoles (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then: cat new_keys >> {FILE}"
    )


def test_other_ports_and_jump_hosts_are_scanned_on_their_way() -> None:
    through = "ssh -p 22 ops@bastion "
    errors = [unknown_key(1, port=2222), unknown_key(2, port=2222), unknown_key(3, port=2222, through=through)]
    assert (one(errors).hint or "").startswith(
        "{ ssh-keyscan -p 2222 10.0.0.1 10.0.0.2; ssh -p 22 ops@bastion ssh-keyscan -p 2222 10.0.0.3; } > new_keys; "
    )


def test_a_jump_host_that_is_down_is_told_once_for_all_behind_it() -> None:
    """What is the same for all of them stays, and only what differs is left out."""
    hint, refused = "is its sshd running?", "10.0.0.1 port 22: connection refused after {}"
    errors = [
        Unreachable(f"kvm{number:02}", "tcp", say(refused, Own(f"{number} s")), via="bastion", hint=hint)
        for number in range(20)
    ]
    found = one(errors)
    assert found.message == "20 hosts: via bastion: tcp: 10.0.0.1 port 22: connection refused after …"
    assert found.hint == hint


def test_hints_that_differ_are_shown_by_one_of_them() -> None:
    errors = [
        Unreachable(
            f"kvm{number}",
            "auth",
            say("no key is accepted by {}", f"kvm{number}"),
            hint=f"ssh-copy-id root@kvm{number}",
        )
        for number in range(3)
    ]
    found = one(errors)
    assert found.message == "3 hosts: auth: no key is accepted by …"
    assert found.hint == "kvm0: ssh-copy-id root@kvm0; the others likewise"


def test_details_are_told_if_they_are_the_same() -> None:
    alike = [Unreachable(f"kvm{number}", "auth", "refused", details=["a key was offered"]) for number in range(3)]
    assert list(one(alike).lines) == ["kvm0 kvm1 kvm2", "a key was offered"]
    alike[1].details = ("another key was offered",)
    assert list(one(alike).lines) == ["kvm0 kvm1 kvm2"]


def test_few_errors_and_others_stay_as_they_are_in_their_order() -> None:
    first, last = UnknownHost("no host 'kvm99'"), LedgerBroken("kvm07", "the ledger cannot be read: …")
    refused = [Unreachable(f"kvm{number}", "tcp", "refused") for number in range(FEWEST)]
    busy = [Busy(f"kvm{number}", "locked by anna") for number in range(FEWEST - 1)]
    found = grouped([first, refused[0], *busy, *refused[1:], last])
    assert found[0] is first
    assert isinstance(found[1], Alike)
    assert found[2:] == [*busy, last]


def test_the_same_host_told_often_is_no_group() -> None:
    errors = [Unreachable("kvm01", "tcp", "refused") for _ in range(5)]
    assert grouped(errors) == errors


def test_hosts_that_could_not_be_asked_for_a_vm_are_told_once_with_their_way_out_before_its_own() -> None:
    other = Unreachable("kvm99", "tcp", "refused")
    error = VmNotSeen(
        "no VM 'vm01' on the 1 host that answered", details=["one", "by one"], hint="or name the VM's host"
    )
    error.unread = (*(unknown_key(number) for number in range(1, 41)), other)
    details, hint = within(error)
    assert details[0].startswith("40 hosts: kex: ")
    assert " ".join(details[1:-1]).split() == [f"kvm{number:02}" for number in range(1, 41)]
    assert details[-1] == "kvm99: tcp: refused"
    assert hint is not None
    assert hint.startswith("ssh-keyscan -p 22 10.0.0.1 10.0.0.2 ")
    assert hint.endswith("; or name the VM's host")
    error.unread = error.unread[:2]
    assert within(error) == (["one", "by one"], "or name the VM's host")


def test_findings_that_differ_in_the_host_alone_are_told_once_unless_a_command_names_it() -> None:
    def finding(host: str | None, text: str) -> Finding:
        return Finding(kind="silent", host=None if host is None else HostName(host), text=text)

    hosts = [f"kvm{number}" for number in range(3)]
    silent = [finding(host, say("{}: NVML did not answer within {}", host, Own(f"{host[3:]}.5 s"))) for host in hosts]
    copied = [finding(host, say("cordoned: `{}` lifts it", Command("vgpumgr", "uncordon", host))) for host in hosts]
    apart = [finding(None, "the journal is full"), finding("kvm7", "kvm7: a VM is gone")]
    first, *rest = findings([silent[0], *apart, *silent[1:], *copied])
    assert first == Alike(message="3 hosts: NVML did not answer within …", lines=("kvm0 kvm1 kvm2",), hint=None)
    assert rest == [*apart, *copied]


def unstartable(host: str, vm: str, libvirt: str = "9.0.0") -> Finding:
    text = say("{} will not start on {}", vm, libvirt)
    return Finding(kind="will-not-start", host=HostName(host), vm=vm, slot=DEFAULT_SLOT, text=text)


def test_one_cause_that_stops_many_vms_of_a_host_is_one_line_with_their_names() -> None:
    vms = [unstartable("kvm1", f"vm{number}") for number in range(3)]
    other = unstartable("kvm2", "vm9", "9.6.0")
    assert findings([*vms, other]) == [
        Alike(message="3 VMs on kvm1: … will not start on 9.0.0", lines=("vm0 vm1 vm2",), hint=None),
        other,
    ]
    assert findings(vms[:2]) == vms[:2]


def test_a_cause_on_several_hosts_has_a_line_for_each_host() -> None:
    (found,) = findings(unstartable(f"kvm{number // 20}", f"machine{number}") for number in range(40))
    assert isinstance(found, Alike)
    assert found.message == "40 VMs on 2 hosts: … will not start on 9.0.0"
    assert " ".join(found.lines).split() == [
        word
        for host in (0, 20)
        for word in (f"kvm{host // 20}:", *(f"machine{number}" for number in range(host, host + 20)))
    ]
    assert max(map(len, found.lines)) <= 100


def failed(vm: str | None, *details: str) -> Failed:
    subject = "GPU 0000:41:00.0" if vm is None else f"{vm} vgpu0"
    error = NotReady(
        say("the vGPU of {} cannot be re-created", vm), details=details, hint=f"or `vgpumgr attach {vm} --replace`"
    )
    return Failed(host="kvm1", vm=vm, slot=None if vm is None else "vgpu0", subject=subject, error=error)


def test_slots_that_are_refused_for_one_cause_are_one_error_with_the_way_out_of_the_first() -> None:
    assert of_tasks([failed("vm1"), failed("vm2"), failed("vm3")]) == [
        Alike(
            message="3 VMs on kvm1: the vGPU of … cannot be re-created",
            lines=("vm1 vm2 vm3",),
            hint="vm1: or `vgpumgr attach vm1 --replace`; the others likewise",
        )
    ]


def test_no_detail_of_a_slots_error_is_lost_and_gpus_are_no_vms() -> None:
    apart = [*(failed(f"vm{number}", f"detail {number}") for number in range(3)), *[failed(None)] * 3]
    assert of_tasks(apart) == apart


def test_gpus_that_are_refused_for_one_reason_are_one_line_with_their_number_and_the_gpus_below() -> None:
    """Whose the vGPUs are differs from GPU to GPU, and so may the GPU's own address (found: anchors A7)."""
    pcis = [f"0000:{number:02x}:00.0" for number in range(40)]
    whose = [(GpuAddress(pci), Own(f"(vm{pci[5:7]} … vm99)")) for pci in pcis[:30]]
    full = [say("{}  A40  full: 12 of 12 {}", pci, vms) for pci, vms in whose]
    run = "offers no vGPUs: SR-IOV is off; run sriov-manage -e"
    off = [say("{}  A40  {} {}", GpuAddress(pci), run, pci) for pci in pcis[30:38]]
    few = [say("{}  A40  its vGPU types cannot be read", GpuAddress(pci)) for pci in pcis[38:]]
    details, hint = within(NoCapacity("no GPU", details=[*full, *off, *few, "and another line"], hint="see"))
    heads = [line for line in details if not line.startswith("  ")]
    assert heads == [
        "30 GPUs  A40  full: 12 of 12 …",
        "8 GPUs  A40  offers no vGPUs: SR-IOV is off; run sriov-manage -e …",
        *few,
        "and another line",
    ]
    assert [word for line in details if line.startswith("  ") for word in line.split()] == pcis[:38]
    assert hint == "see"
