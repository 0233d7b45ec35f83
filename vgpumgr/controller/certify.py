"""host certify: ask a host's driver what vgpumgr believes of it, by reading, and on empty GPUs by trying."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors, resources
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import CertifyResult
from vgpumgr.core.certify import beliefs, probes, questions
from vgpumgr.core.certify.beliefs import Answer
from vgpumgr.core.step import EMPTY, PRESENT, CreateVgpu, DestroyVgpu
from vgpumgr.errors import Outcome
from vgpumgr.link.domain_query import DOMAINS
from vgpumgr.store.journal_entry import Intent
from vgpumgr.wording import Command, Option, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.certify.capture import Capture
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.core.step import HostStep
    from vgpumgr.errors import Success
    from vgpumgr.names import HostName, PciAddress

_WHAT = "host certify"
_ACCEPTED = "accepted"
_NOT_ASKED = {
    beliefs.READ: "the GPU offers no vGPUs now",
    beliefs.EMPTY_GPU: "it is tried on an empty GPU only, with --allow-destructive",
    beliefs.PERSON: "a person has to ask it: docs/hardware-checklist.md",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is going to be tried on a host: its empty GPUs, and why the others are left alone."""

    host: HostName
    gpus: tuple[Gpu, ...]
    left: tuple[tuple[PciAddress, str], ...]


def certify(context: Context, host: str, consent: Consent[Trial], *, gpu_id: str | None, tries: bool) -> CertifyResult:
    """Certify the host of that name, or one GPU of it. `tries`: also on its empty GPUs, by making vGPUs there.

    Raises RequestError (NotReady: it has no GPU that offers vGPUs), RefusedPlan (no GPU is empty), Declined, HostError.
    """
    declaration = context.inventory.host(host)
    with open_session(context, declaration) as session:
        captured = session.link.capture(wait_s=context.timing.lock_wait_s)
        gpus = _chosen(captured, gpu_id)
        table = beliefs.parse(resources.beliefs())
        answers = [
            one for one in questions.read(captured, table, context.catalogue) if one.gpu in {gpu.pci for gpu in gpus}
        ]
        outcome: Success = Outcome.UNCHANGED
        not_asked = dict(_NOT_ASKED)
        if tries:
            trial = _trial(captured, gpus)
            consent.show(trial)
            outcome = Outcome.WOULD_CHANGE
            if not consent.check:
                consent.ask(trial)
                answers += _try(session, trial)
                outcome = Outcome.DONE
            not_asked[beliefs.EMPTY_GPU] = "; ".join(why for _, why in trial.left) or "nothing there answers it"
        raw = {**captured.raw, "definitions": _definitions(session)}
    return CertifyResult(
        host=declaration.name,
        versions=captured.snapshot.versions,
        table=table,
        answers=beliefs.complete(table, answers, {gpu.pci: gpu.framework for gpu in gpus}, not_asked),
        raw=raw,
        outcome=outcome,
        findings=journaling.findings(context),
    )


def _chosen(captured: Capture, gpu_id: str | None) -> tuple[Gpu, ...]:
    facts, host = captured.snapshot, captured.snapshot.host
    if not facts.gpus:
        hint = say("`{}` says what the host lacks", Command("vgpumgr", "doctor", host))
        raise errors.NotReady(say("{} has no NVIDIA GPU that the kernel shows", host), hint=hint)
    gpus = tuple(gpu for gpu in facts.gpus if gpu_id in (None, gpu.pci, gpu.uuid))
    if not gpus:
        raise errors.UnknownGpu(
            say("{} has no GPU {}", host, gpu_id), hint=say("it has {}", ", ".join(one.pci for one in facts.gpus))
        )
    if all(gpu.framework is None for gpu in gpus):
        raise errors.NotReady(
            say("no GPU of {} offers vGPUs, so its driver cannot be asked", host),
            details=[f"{gpu.pci}: {gpu.problem or 'unknown'}" for gpu in gpus],
            hint=say("`{}` says what to do", Command("vgpumgr", "doctor", host)),
        )
    return gpus


def _trial(captured: Capture, gpus: tuple[Gpu, ...]) -> Trial:
    facts = captured.snapshot
    why = {gpu.pci: probes.why_not_empty(facts, gpu) for gpu in gpus}
    left = tuple((pci, text) for pci, text in why.items() if text is not None)
    empty = tuple(gpu for gpu in gpus if why[gpu.pci] is None)
    if not empty:
        raise errors.RefusedPlan(
            say("no GPU of {} is empty, so nothing is tried there", facts.host),
            details=[f"{pci}: {text}" for pci, text in left],
            hint=say("without {} everything is only read", Option("--allow-destructive")),
        )
    return Trial(host=facts.host, gpus=empty, left=left)


def _definitions(session: Session) -> list[dict[str, object]]:
    """The host devices of the host's VMs; none if libvirt does not answer."""
    from vgpumgr.core.model import domain_xml

    try:
        domains = map(domain_xml.read_domain, session.link.domains(DOMAINS).domains)
    except errors.HostError:
        return []
    return [
        {
            "vm": one.name,
            "vm_uuid": one.uuid,
            "active": one.active,
            "hostdevs": [{"source": str(each.source), "managed": each.managed} for each in one.mentioned],
        }
        for one in domains
    ]


def _try(session: Session, trial: Trial) -> list[Answer]:
    """Try on each empty GPU, under the host's lock, which is released at the end."""
    context, answers = session.context, list[Answer]()
    session.link.lock(by=f"{context.by} {_WHAT}", wait_s=context.timing.lock_wait_s)
    for gpu in trial.gpus:
        intent = Intent(verb="certify", why="requested", host=trial.host, gpu=gpu.pci)
        with journaling.recorded(context, intent) as line:
            answers += _OneGpu(session, gpu.pci).carry_out()
        line.end(None)
    session.link.unlock(())
    return answers


class _OneGpu:
    """The tries on one GPU. The caller holds the host's lock."""

    def __init__(self, session: Session, pci: PciAddress) -> None:
        self._session = session
        self._link = session.link
        self._pci = pci
        self._answers: list[Answer] = []

    def carry_out(self) -> list[Answer]:
        """Raises RefusedPlan if the GPU is no longer empty, HostError. What it made is removed in any case."""
        captured, gpu = self._look()
        why = probes.why_not_empty(captured.snapshot, gpu)
        if why is not None:
            raise errors.RefusedPlan(
                say("GPU {} is not empty any more: {}", self._pci, why), hint="nothing was tried there"
            )
        for step in probes.leftovers(captured.snapshot, gpu):  # of a run that was killed
            self._link.execute(step)
        captured, gpu = self._look()
        tries = probes.Tries.on(gpu)
        if tries is None:
            return []
        for belief, vgpu in tries.before.items():
            self._refusal(belief, vgpu)
        if tries.empty is not None:
            self._rewritten("no-type", tries.first, tries.empty.pci, 0)
        if self._timed("create", tries.first, self._creation(tries.first), "made"):
            try:
                self._beside(captured, tries)
            finally:
                self._timed("remove", tries.first, self._removal(tries.first), "removed")
            self._answers.append(probes.after_removal(captured, self._look()[0], tries.first))
        return self._answers

    def _look(self) -> tuple[Capture, Gpu]:
        found = self._link.capture(wait_s=self._session.context.timing.lock_wait_s)
        return found, next(one for one in found.snapshot.gpus if one.pci == self._pci)

    def _beside(self, before: Capture, tries: probes.Tries) -> None:
        after, gpu = self._look()
        self._answers += probes.beside(before, after, tries.first)
        for belief, vgpu in tries.beside.items():
            self._refusal(belief, vgpu)
        if tries.first.uuid is None:
            self._rewritten("same-type", tries.first, tries.first.parent, tries.first.type_id)
        step = probes.same_scheduler(after.snapshot, gpu)
        if step is not None:
            seen, evidence = self._outcome(lambda: self._link.execute(step))
            self._note(tries.first, "idle-scheduler", ("NVML 3", "NVML 19"), seen, evidence)

    def _refusal(self, belief: str, vgpu: VgpuSpec) -> None:
        """Ask for a vGPU that the driver should refuse; remove it if it is made all the same."""
        seen, evidence = self._outcome(lambda: self._link.execute(self._creation(vgpu)))
        if seen == _ACCEPTED:
            self._link.execute(self._removal(vgpu))
        self._note(vgpu, belief, ("EIO",), seen, evidence)

    def _rewritten(self, belief: str, vgpu: VgpuSpec, parent: PciAddress, type_id: int) -> None:
        seen, evidence = self._outcome(lambda: self._link.try_vf(vgpu, parent, type_id))
        self._note(vgpu, belief, ("EPERM",), seen, evidence)

    def _timed(self, belief: str, vgpu: VgpuSpec, step: HostStep, word: str) -> bool:
        """Carry out a step that the driver should accept. Returns whether it did."""
        began = time.monotonic()
        seen, evidence = self._outcome(lambda: self._link.execute(step), refused=False)
        took_s = time.monotonic() - began
        self._note(vgpu, belief, (word,), word if seen == _ACCEPTED else seen, evidence)
        limit = f"under {probes.LONGEST_S:g} s"
        told = limit if took_s < probes.LONGEST_S else f"{took_s:.0f} s"
        self._note(vgpu, f"{belief}-time", (limit,), told, f"{took_s:.3f} s, the connection's time included")
        return seen == _ACCEPTED

    def _note(self, vgpu: VgpuSpec, belief: str, expected: tuple[str, ...], seen: str | None, evidence: str) -> None:
        self._answers.append(probes.answer(vgpu, belief, expected, seen, evidence))

    def _outcome(self, call: Callable[[], object], *, refused: bool = True) -> tuple[str | None, str]:
        """The driver's answer: one word, and its own text. None, and the reason, if our own guards refused the call.

        Raises every other error. `refused` False: raises the refusal of our guards, too.
        """
        try:
            call()
        except errors.SysfsRefused as error:
            return error.errno_name, error.what
        except errors.NvmlRefused as error:
            return f"NVML {error.code}", error.what
        except (errors.RefusedPlan, errors.StalePlan) as error:
            if not refused:
                raise
            return None, error.what
        return _ACCEPTED, ""

    def _creation(self, vgpu: VgpuSpec) -> HostStep:
        return CreateVgpu(host=self._session.declaration.name, vgpu=vgpu, expect=EMPTY)

    def _removal(self, vgpu: VgpuSpec) -> HostStep:
        return DestroyVgpu(host=self._session.declaration.name, vgpu=vgpu, expect=PRESENT)
