"""Finds what gc does on one host, from the user's request and what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.gpu import instance_plan
from vgpumgr.core.reconcile.tasks import FreeInstances

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView


def todo(view: HostView, gpu_id: str | None = None) -> tuple[FreeInstances, ...]:
    """A task for each GPU that has GPU instances of ours, or for the one that is requested."""
    gpus = instance_plan.gpus_of_ours(view.snapshot) if gpu_id is None else (gpu_id,)
    return tuple(FreeInstances(gpu_id=gpu) for gpu in gpus)
