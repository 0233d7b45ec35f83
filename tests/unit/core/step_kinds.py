"""Every kind of step that there is: what the files of core/step/ name in their `__all__`."""

from __future__ import annotations

from inspect import isabstract, isclass
from typing import TYPE_CHECKING

from vgpumgr.core.step import AnyStep, definition, gpu, host, vgpu

if TYPE_CHECKING:
    from types import ModuleType


def _of(*families: ModuleType) -> set[type[AnyStep]]:
    named = [getattr(family, name) for family in families for name in family.__all__]
    return {one for one in named if isclass(one) and issubclass(one, AnyStep) and not isabstract(one)}


OF_HOST_PROGRAM = _of(gpu, host, vgpu)
ALL = OF_HOST_PROGRAM | _of(definition)
