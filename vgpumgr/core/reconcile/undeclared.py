"""What a host keeps though undeclared: a scheduler in /etc/modprobe.d, a mode. Dropping a declaration reverts nothing.

On the host, a dropped declaration looks like a `scheduler set` or `mode set` that a person once ran.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vgpumgr.core.driver import scheduler
from vgpumgr.core.gpu import modes
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.inventory import settings
from vgpumgr.core.model.view import Finding
from vgpumgr.core.placing import instances
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot


def findings(facts: HostSnapshot, declared: HostDeclaration) -> Iterator[Finding]:
    """A finding for each setting of a host that nothing declares, with the GPUs that have it."""
    by_setting: dict[tuple[str, Command], list[tuple[str, Command]]] = {}
    for gpu in sorted(facts.gpus, key=lambda one: one.pci):
        if gpu.framework is None:  # passed through whole: it has no setting, and no board's declaration is about it
            continue
        for what, ends in (*_scheduler(facts, gpu, declared), *_mode(facts, gpu, declared)):
            by_setting.setdefault((what, ends("GPU")), []).append((gpu.pci, ends(gpu.pci)))
    for (what, ends_each), same in by_setting.items():
        gpus = [pci for pci, _ in same]
        ends_it = ends_each if len(same) > 1 else same[0][1]
        text = say(
            "{}: GPU{} {} keep{} {}, which is not declared (any more): declare it, or `{}` ends it",
            facts.host,
            "s" if len(gpus) > 1 else "",
            ", ".join(gpus),
            "s" if len(gpus) == 1 else "",
            what,
            ends_it,
        )
        yield Finding(kind="undeclared", host=facts.host, text=text)


def _scheduler(
    facts: HostSnapshot, gpu: Gpu, declared: HostDeclaration
) -> Iterator[tuple[str, Callable[[str], Command]]]:
    if not gpu.rules.has_scheduler or settings.deciding(gpu, declared.of_gpus, "scheduler") is not None:
        return
    layer = scheduler_plan.persistent(facts, gpu)
    if layer.found is not None and layer.setting is not None and layer.setting.policy != scheduler.BEST_EFFORT:
        what = f"{scheduler.describe(layer.setting)} ({layer.found.path})"
        yield what, partial(_best_effort, facts.host)


def _best_effort(host: str, pci: str) -> Command:
    words = ("--on", host, "--gpu-id", pci, "--policy", scheduler.BEST_EFFORT)
    return Command("vgpumgr", "scheduler", "set", *words)


def _mode(facts: HostSnapshot, gpu: Gpu, declared: HostDeclaration) -> Iterator[tuple[str, Callable[[str], Command]]]:
    if gpu.rules.is_default or settings.deciding(gpu, declared.of_gpus, "mode") is not None:
        return
    idle = len(instances.cached(facts, gpu))
    beside = f", with {idle} cached GPU instance{'s' if idle > 1 else ''}" if idle else ""
    yield f"{gpu.rules.words} mode{beside}", partial(modes.leaving, gpu, facts.host)
