"""Faulty GPUs: one that NVML cannot reach takes no vGPU, and nothing on it counts as in sync.

A GPU that has fallen off the bus looks empty in /sys. Where a host has no NVML, its GPUs' health is unknown, and /sys
alone decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.model.view import Finding, why_unknown
from vgpumgr.core.placing.no_place import Cause, Refusal
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.model.snapshot import Fault, Gpu, HostSnapshot
    from vgpumgr.core.model.vgpu import VgpuSpec

_WHAT: Final[dict[Fault, str]] = {
    "lost": "has fallen off the bus, or its driver has lost it (NVML: GPU is lost)",
    "needs-reset": "needs a reset (NVML)",
    "no-driver": "does not answer: its driver is not loaded, or not of NVML's version",
}
_WAY_OUT: Final[dict[Fault, str]] = {
    "lost": "see dmesg there (NVRM, Xid 79); a power cycle may bring it back",
    "needs-reset": "stop its VMs, then `nvidia-smi --gpu-reset`, or reboot the host",
    "no-driver": "see `nvidia-smi` and dmesg there; if the driver was upgraded, reboot the host",
}

NO_TYPES: Final = "its driver lists no vGPU types: nvidia-vgpud ended without creating them (see its journal)"


def lacks_types(gpu: Gpu) -> bool:
    """Whether a GPU has functions for vGPUs whose lists of types were read, and are empty."""
    return gpu.framework is not None and gpu.types is not None and not gpu.types


def ill(gpu: Gpu) -> Refusal | None:
    """Why a GPU is no place for anything new; None if NVML says nothing against it."""
    return None if gpu.fault is None else Refusal(Cause.ILL, _WHAT[gpu.fault])


def why_unverified(facts: HostSnapshot, target: VgpuSpec | None) -> str | None:
    """Why nobody can say that a vGPU is in sync, although nothing is seen to be wrong; None if one can."""
    gpu = facts.gpu_by_uuid(target.gpu_uuid) if target is not None else None
    return None if gpu is None or gpu.fault is None else f"GPU {gpu.pci} {_WHAT[gpu.fault]}"


def of_target(facts: HostSnapshot, target: VgpuSpec) -> tuple[Finding, ...]:
    """What attach says of a vGPU that is there, on a GPU that is ill."""
    gpu, why = facts.gpu_by_uuid(target.gpu_uuid), why_unverified(facts, target)
    if gpu is None or gpu.fault is None:
        return ()
    text = say("{}: {}; the vGPU of {} there is unverified: {}", facts.host, why, target.vm_name, _WAY_OUT[gpu.fault])
    return (Finding(kind="ill", host=facts.host, vm=target.vm_name, slot=target.slot, text=text),)


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each fault, with its GPUs and the number of our vGPUs on them.

    Further findings name GPUs that list no types or another board's types, and GPUs whose use is unknown.
    """
    findings = [*other_boards(facts)]
    for gpu in facts.gpus:
        if gpu.fault is None and lacks_types(gpu) and any(parent.creatable is not None for parent in gpu.parents):
            text = say("{}: GPU {}: {}", facts.host, gpu.pci, NO_TYPES)
            findings.append(Finding(kind="ill", host=facts.host, text=text))
    for fault, what in _WHAT.items():
        gpus = [gpu for gpu in facts.gpus if gpu.fault == fault]
        if gpus:
            which = f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(gpu.pci for gpu in gpus)} {_plural(what, len(gpus))}"
            text = say("{}: {}{}: {}", facts.host, which, _unverified(facts, gpus), _WAY_OUT[fault])
            findings.append(Finding(kind="ill", host=facts.host, text=text))
    return (*findings, *_undecided(facts))


def _unverified(facts: HostSnapshot, gpus: Sequence[Gpu]) -> str:
    ours = sum(len(entries) for gpu in gpus for entries in facts.entries.on(gpu.uuid).values())
    return f"; {ours} vGPU{' there is' if ours == 1 else 's there are'} unverified" if ours else ""


def _undecided(facts: HostSnapshot) -> Iterator[Finding]:
    """A finding for each reason why use of our vGPUs is unknown, although their GPUs show no fault."""
    reasons: dict[str, list[str]] = {}
    for gpu in facts.gpus:
        ours = [entry.vgpu for entries in facts.entries.on(gpu.uuid).values() for entry in entries]
        silent = facts.why_silent(gpu.pci)
        if gpu.fault is not None or not any(facts.vgpu_of(one) for one in ours):
            continue
        if facts.handles is None:
            reasons.setdefault(f"open /dev/vfio handles: {why_unknown(facts, 'handles')}", []).append(gpu.pci)
        elif silent is not None:
            reasons.setdefault(f"NVML's active vGPUs: {silent}", []).append(gpu.pci)
    for why, gpus in reasons.items():
        which = f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(gpus)}"
        text = say(
            "{}: cannot tell which vGPUs of {} are in use ({}): none is removed until that can be read",
            facts.host,
            which,
            why,
        )
        yield Finding(kind="nvml-silent", host=facts.host, text=text)


def other_boards(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each GPU that offers types which its memory cannot hold."""
    findings: list[Finding] = []
    for gpu in facts.gpus:
        large = [one for one in (gpu.types or {}).values() if one.size_mib is not None and not gpu.holds(one.size_mib)]
        if large:
            most = max(large, key=lambda one: one.size_mib or 0)
            text = say(
                "{}: GPU {} ({}, {} MiB) offers types of another board ({}, {} MiB): types that its memory cannot hold are "
                "not used",
                facts.host,
                gpu.pci,
                gpu.name or "?",
                gpu.framebuffer_mib,
                most.type_name,
                most.size_mib,
            )
            findings.append(Finding(kind="other-board", host=facts.host, text=text))
    return tuple(findings)


def _plural(what: str, number: int) -> str:
    """The text for several GPUs: "need" in place of "needs"."""
    if number == 1:
        return what
    for one, many in (("has ", "have "), ("needs ", "need "), ("does not", "do not"), (" its ", " their ")):
        what = what.replace(one, many, 1)
    return what
