"""host certify: ask a host's driver what vgpumgr believes of it, by reading, and on empty GPUs by trying."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors, resources
from vgpumgr.controller.engine import journaling
from vgpumgr.controller.hosts.session import open_session
from vgpumgr.controller.results import CertifyResult
from vgpumgr.core.certify import beliefs, probes, questions
from vgpumgr.core.step import EMPTY, PRESENT, CreateVgpu, DestroyVgpu
from vgpumgr.errors import Outcome
from vgpumgr.link.domain_query import DOMAINS
from vgpumgr.store.journal_entry import Intent
from vgpumgr.wording import Command, Option, say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.certify.beliefs import Answer, Belief
    from vgpumgr.core.certify.capture import Capture
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import VgpuSpec
    from vgpumgr.errors import Success, VgpumgrError
    from vgpumgr.names import HostName, PciAddress

_ACCEPTED = "accepted"
_REFUSALS = (errors.SysfsRefused, errors.NvmlRefused, errors.RefusedPlan, errors.StalePlan)
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
        answers = list(questions.read(captured, table, context.catalogue))
        outcome: Success = Outcome.UNCHANGED
        failure: VgpumgrError | None = None
        not_asked = dict(_NOT_ASKED)
        if tries:
            trial = _trial(captured, gpus)
            consent.show(trial)
            outcome = Outcome.WOULD_CHANGE
            if not consent.check:
                consent.ask(trial)
                tried, failure = _try(session, trial, table)
                answers += tried
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
        failure=failure,
        findings=journaling.findings(context),
    )


def _chosen(captured: Capture, gpu_id: str | None) -> tuple[Gpu, ...]:
    host, there = captured.snapshot.host, captured.snapshot.gpus
    lacks = say("`{}` says what the host lacks", Command("vgpumgr", "doctor", host))
    if not there:
        raise errors.NotReady(say("{} has no NVIDIA GPU that the kernel shows", host), hint=lacks)
    gpus = tuple(gpu for gpu in there if gpu_id in (None, gpu.pci, gpu.uuid))
    if not gpus:
        hint = say("it has {}", ", ".join(one.pci for one in there))
        raise errors.UnknownGpu(say("{} has no GPU {}", host, gpu_id), hint=hint)
    if all(gpu.framework is None for gpu in gpus):
        raise errors.NotReady(
            say("no GPU of {} offers vGPUs, so its driver cannot be asked", host),
            details=[f"{gpu.pci}: {gpu.problem or 'unknown'}" for gpu in gpus],
            hint=lacks,
        )
    return gpus


def _trial(captured: Capture, gpus: tuple[Gpu, ...]) -> Trial:
    facts = captured.snapshot
    left = tuple((gpu.pci, why) for gpu in gpus if (why := probes.why_not_empty(facts, gpu)) is not None)
    empty = tuple(gpu for gpu in gpus if gpu.pci not in dict(left))
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


def _try(session: Session, trial: Trial, table: Mapping[str, Belief]) -> tuple[list[Answer], VgpumgrError | None]:
    """Try on each empty GPU, under the host's lock, which is released at the end. Returns the answers.

    A GPU on which a vGPU had to be left is the last one; then also returns the error that says so.
    """
    context = session.context
    answers: list[Answer] = []
    failure: VgpumgrError | None = None
    session.link.lock(by=f"{context.by} host certify", wait_s=context.timing.lock_wait_s)
    for gpu in trial.gpus:
        intent = Intent(verb="certify", why="requested", host=trial.host, gpu=gpu.pci)
        with journaling.recorded(context, intent) as line:
            failure = _OneGpu(session, gpu.pci, table, answers).carry_out()
        line.end(failure)
        if failure is not None:
            break
    session.link.unlock(())
    return answers, failure


class _OneGpu:
    """The tries on one GPU. Their answers are added to `answers`. The caller holds the host's lock."""

    def __init__(self, session: Session, pci: PciAddress, table: Mapping[str, Belief], answers: list[Answer]) -> None:
        self._link, self._wait_s = session.link, session.context.timing.lock_wait_s
        self._pci, self._table = pci, table
        self._answers = answers
        self._left: dict[VgpumgrError, VgpuSpec] = {}  # by the refusal of its removal

    def carry_out(self) -> VgpumgrError | None:
        """Try, and remove what was made, also after an error. Returns an error if a vGPU had to be left.

        Raises RefusedPlan if the GPU is no longer empty, HostError.
        """
        also: list[str] = []
        try:
            self._carry_out()
        except errors.VgpumgrError as error:
            if not self._left:
                raise
            also += [] if error in self._left else [error.message]
        if not self._left:
            return None
        left = [
            line
            for error, vgpu in self._left.items()
            for line in (say("{} on {}: {}", vgpu.type_name, vgpu.parent, error.what), *error.details)
        ]
        again = Command("vgpumgr", "host", "certify", self._link.host, "--gpu-id", self._pci, "--allow-destructive")
        return errors.PartialApply(
            say("certify could not remove what it made on GPU {}", self._pci),
            host=self._link.host,
            details=[*left, *also],
            hint=say("`{}` removes it before anything else", again),
        )

    def _carry_out(self) -> None:
        captured, gpu = self._look()
        why = probes.why_not_empty(captured.snapshot, gpu)
        if why is not None:
            raise errors.RefusedPlan(
                say("GPU {} is not empty any more: {}", self._pci, why), hint="nothing was tried there"
            )
        for step in probes.leftovers(captured.snapshot, gpu):  # of a run that was killed
            with suppress(*_REFUSALS):
                self._destroy(step)
        _, before = self._look()
        tries = probes.Tries.on(before)
        if tries is None or self._left:
            return
        first = tries.first
        self._try_all(tries.before)
        if (empty := tries.empty) is not None:
            self._ask("no-type", first, lambda vgpu: self._link.try_vf(vgpu, empty, 0))
        if self._ask("create", first, self._create, word="made"):
            try:
                self._beside(before, tries)
            finally:
                removed = self._ask("remove", first, self._remove, word="removed")
            if removed:
                offers, now = ({one.pci: one.creatable for one in gpu.parents} for gpu in (before, self._look()[1]))
                self._note("after-removal", first, "as before" if offers == now else "differently")

    def _look(self) -> tuple[Capture, Gpu]:
        found = self._link.capture(wait_s=self._wait_s)
        return found, next(one for one in found.snapshot.gpus if one.pci == self._pci)

    def _beside(self, before: Gpu, tries: probes.Tries) -> None:
        first, (after, gpu) = tries.first, self._look()
        for belief, seen, expected in probes.beside(before, after, first):
            self._note(belief, first, seen, expected=expected)
        self._try_all(tries.beside)
        if first.uuid is None:
            self._ask("same-type", first, lambda vgpu: self._link.try_vf(vgpu, vgpu.parent, vgpu.type_id))
        step = probes.same_scheduler(after.snapshot, gpu)
        if step is not None:
            self._ask("idle-scheduler", first, lambda _: self._link.execute(step))

    def _try_all(self, tries: Mapping[str, VgpuSpec]) -> None:
        """Ask for vGPUs that the driver should refuse; remove each that is made all the same."""
        for belief, vgpu in tries.items():
            if self._ask(belief, vgpu, self._create):
                self._remove(vgpu)

    def _ask(self, belief: str, vgpu: VgpuSpec, call: Callable[[VgpuSpec], object], *, word: str = _ACCEPTED) -> bool:
        """Make the call and note the answer: `word`, or the driver's refusal in its words. Returns whether it accepted.

        If `word` is not the default, the driver should accept: then the time is noted, too, and a refusal by our own
        guards is raised. With the default, such a refusal is noted as no answer. Raises every other error.
        """
        seen: str | None = word
        evidence, began = "", time.monotonic()
        try:
            call(vgpu)
        except errors.SysfsRefused as error:
            seen, evidence = error.errno_name, error.what
        except errors.NvmlRefused as error:
            seen, evidence = f"NVML {error.code}", error.what
        except (errors.RefusedPlan, errors.StalePlan) as error:
            if word != _ACCEPTED:
                raise
            seen, evidence = None, error.what
        took_s = time.monotonic() - began
        self._note(belief, vgpu, seen, evidence)
        if word != _ACCEPTED:
            told = f"under {probes.LONGEST_S:g} s" if took_s < probes.LONGEST_S else f"{took_s:.0f} s"
            self._note(f"{belief}-time", vgpu, told, f"{took_s:.3f} s, the connection's time included")
        return seen == word

    def _note(
        self, belief: str, vgpu: VgpuSpec, seen: str | None, evidence: str = "", expected: str | None = None
    ) -> None:
        told = evidence or say("{} on {}", vgpu.type_name, vgpu.parent)
        self._answers.append(self._table[belief].answer(self._pci, () if seen is None else (seen,), told, expected))

    def _create(self, vgpu: VgpuSpec) -> None:
        self._link.execute(CreateVgpu(host=self._link.host, vgpu=vgpu, expect=EMPTY))

    def _remove(self, vgpu: VgpuSpec) -> None:
        self._destroy(DestroyVgpu(host=self._link.host, vgpu=vgpu, expect=PRESENT))

    def _destroy(self, step: DestroyVgpu) -> None:
        """Remove what certify made. If that is refused, `carry_out` tells what is left, and what removes it."""
        try:
            self._link.execute(step)
        except _REFUSALS as error:
            self._left[error] = step.vgpu
            raise
