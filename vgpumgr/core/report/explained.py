"""What each GPU would grant for a wish, in order of preference, or why it cannot; and which mechanisms can serve it.

Attach uses the same order: it takes the first GPU on its VM's host.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import modes, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.driver.mechanisms import MECHANISMS
from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import instances, placement, resolve, room

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from vgpumgr.core.driver.asking import Conditions, Grant
    from vgpumgr.core.driver.mechanisms import Key, Mechanism
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.evidence.sharing import Barred
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, PciAddress

_SHARED_MIG: Final = "mig-time-sliced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A wish with its conditions. `gpu_id`: only this GPU, by address or UUID. `policy`: one in place of the host's."""

    wish: Wish
    conditions: Conditions
    gpu_id: str | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A type that would be closer to the wish, but that the GPU cannot take now."""

    type_name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAnswer:
    """One GPU's answer to the wish. `rank` 1: an attach on this host would take it; None: it cannot serve the wish.

    `why`: the reason for its rank or refusal. `allocated`: the part of the GPU that is allocated; None: unknown.
    """

    host: HostName
    gpu: PciAddress
    board: str
    mode: Mode | None
    scheduler: Policy | None
    allocated: Fraction | None
    rank: int | None
    type_name: str | None
    grant: Grant | None
    why: str
    passed: tuple[Passed, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A place where a mechanism can serve the wish."""

    host: HostName
    gpu: PciAddress
    type_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAnswer:
    """One host: its GPUs, best first, and each mechanism's first fit. `ways`: the mechanisms its GPUs are set to."""

    host: HostName
    gpus: tuple[GpuAnswer, ...]
    fits: tuple[tuple[Key, Fit], ...]
    ways: frozenset[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A mechanism, and one place on each host where it can serve the wish. `why_not`: why there is none."""

    mechanism: Mechanism
    fits: tuple[Fit, ...]
    why_not: str | None


def of_host(view: HostView, asked: Asked) -> HostAnswer:
    """The answers of a host's GPUs to the wish."""
    gpus = [gpu for gpu in view.snapshot.gpus if asked.gpu_id in (None, gpu.pci, gpu.uuid)]
    barred = sharing.barred_functions(view)
    policy = None if asked.policy is None else view.find_policy(asked.policy)
    ask = resolve.Ask.at_host(view, asked.wish, asked.conditions, policy=policy)
    ranking = placement.consider(view.snapshot, ask, among=None if asked.gpu_id is None else gpus, barred=barred)
    answers = [_able(view, ranking, at) for at in range(len(ranking.candidates))]
    answers += [_answer(view, gpu, why=refusal.text) for gpu, refusal in ranking.refused]
    fits = {mechanism.key: _fit(view, ask, mechanism.key, gpus, barred) for mechanism in MECHANISMS}
    return HostAnswer(
        host=view.snapshot.host,
        gpus=tuple(answers),
        fits=tuple((key, fit) for key, fit in fits.items() if fit is not None),
        ways=frozenset(key for gpu in gpus if gpu.framework is not None for key in fits if _is_set_to(gpu, key)),
    )


def compare(hosts: Iterable[HostAnswer]) -> tuple[Compared, ...]:
    """Every mechanism, with the places where it can serve the wish."""
    hosts = tuple(hosts)
    return tuple(_compared(mechanism, hosts) for mechanism in MECHANISMS)


def _compared(mechanism: Mechanism, hosts: Sequence[HostAnswer]) -> Compared:
    fits = tuple(fit for host in hosts for key, fit in host.fits if key == mechanism.key)
    return Compared(mechanism=mechanism, fits=fits, why_not=None if fits else _why_not(mechanism.key, hosts))


def _why_not(key: Key, hosts: Sequence[HostAnswer]) -> str:
    if not hosts:
        return "no host was read"
    if any(key in host.ways for host in hosts):
        return "no GPU can take it"
    if not any(host.ways for host in hosts):
        return "no GPU offers vGPUs now"
    if key == _SHARED_MIG:
        return "no GPU in MIG mode has more than one vGPU in an instance"
    return f"no GPU has this {'mode' if key in modes.MODES else 'policy'}"


def _able(view: HostView, ranking: placement.Considered, at: int) -> GpuAnswer:
    one = ranking.candidates[at]
    why = placement.why_behind(ranking.candidates[0], one) if at else placement.why_first(view.snapshot, ranking)
    return replace(
        _answer(view, one.gpu, why=why),
        rank=at + 1,
        type_name=one.choice.type.type_name,
        grant=one.choice.grant,
        passed=tuple(Passed(type_name=kind.type_name, why=refusal.text) for kind, refusal in one.passed),
    )


def _answer(view: HostView, gpu: Gpu, *, why: str) -> GpuAnswer:
    return GpuAnswer(
        host=view.snapshot.host,
        gpu=gpu.pci,
        board=gpu.board or gpu.name or "?",
        mode=gpu.mode,
        scheduler=gpu.scheduler.policy if gpu.scheduler else None,
        allocated=room.known_share(view.snapshot, gpu),
        rank=None,
        type_name=None,
        grant=None,
        why=why,
    )


def _fit(view: HostView, ask: resolve.Ask, key: Key, gpus: Sequence[Gpu], barred: Barred) -> Fit | None:
    """The first place where a mechanism can serve the wish. The mechanism's policy or mode replaces the wish's."""
    among = [_of_mig(gpu, shared=key == _SHARED_MIG) for gpu in gpus if _is_set_to(gpu, key)]
    if key == "whole-gpu":
        # A board that is enough for the wish; how much of it is wasted does not matter.
        among = [gpu for gpu in among if isinstance(resolve.choices(gpu, ask), tuple)]
        whole = profiles.ByShare(gpu="1", series=profiles.series_of(ask.wish))
        ask = replace(ask, wish=whole, conditions=NO_CONDITIONS)
    ask = replace(ask, conditions=replace(ask.conditions, only=None, prefer=None, compute=None))
    ranking = placement.consider(view.snapshot, ask, among=among, barred=barred)
    if not ranking.candidates:
        return None
    best = ranking.candidates[0]
    return Fit(host=view.snapshot.host, gpu=best.gpu.pci, type_name=best.choice.type.type_name)


def _is_set_to(gpu: Gpu, key: Key) -> bool:
    """Whether a GPU's settings are those of a mechanism."""
    if key == _SHARED_MIG:
        return gpu.rules.mig_backed and any(instances.per_instance(one) > 1 for one in (gpu.types or {}).values())
    policy = gpu.scheduler.policy if gpu.scheduler else None
    return key in ("whole-gpu", policy if gpu.rules.is_default else gpu.mode)


def _of_mig(gpu: Gpu, *, shared: bool) -> Gpu:
    """A GPU in MIG mode with only the types that share an instance (`shared`), or only the others."""
    if not gpu.rules.mig_backed or gpu.types is None:
        return gpu
    types = {
        one.id: one
        if (instances.per_instance(one) > 1) == shared
        else replace(one, parsed=profiles.other_name(one.name), mig_profile=None)
        for one in gpu.types.values()
    }
    return replace(gpu, types=types)
