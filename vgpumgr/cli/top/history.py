"""What `top` has seen since it was opened: the newest values of each GPU and vGPU, one for each reading."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.core.usage import live

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import Round

KEPT = 900  # half an hour of readings two seconds apart

Key = tuple[str, ...]


class Seen(NamedTuple):
    """SM in percent of the whole GPU, and framebuffer in percent of its size. None: unknown at that reading."""

    sm: int | None
    framebuffer: float | None


NOTHING = Seen(None, None)


def key_of(row: Row) -> Key:
    """The key of a vGPU: usually, it stays the same while the vGPU exists, even while its VM is off.

    It changes when the VM starts or stops if NVML and the ledger name the VM differently, or if NVML does not report
    the mdev's UUID.
    """
    return (row.host, row.gpu.pci, row.vm, row.vgpu.slot or "", row.vgpu.uuid or row.vgpu.vf or "")


def key_of_gpu(host: str, pci: str) -> Key:
    return (host, pci)


class History:
    """Rings of KEPT values, all from the same readings: values at the same place were read together."""

    def __init__(self) -> None:
        self._rings: dict[Key, deque[Seen]] = {}
        self._readings = 0

    def add(self, rounds: Iterable[Round]) -> None:
        """Add one reading of all hosts.

        A GPU or vGPU that it lacks gets an unknown value; one with only unknown values left is forgotten.
        """
        rounds = tuple(rounds)
        uses = {key_of(row): _of_vgpu(row) for row in live.rows(rounds)}
        for one in rounds:
            for gpu in one.reading.gpus if one.reading else ():
                framebuffer = _percent(gpu.framebuffer_used_bytes, gpu.framebuffer_size_bytes)
                uses[key_of_gpu(one.host, gpu.pci)] = Seen(gpu.sm, framebuffer)
        gaps = min(self._readings, KEPT)
        self._readings += 1
        for key in {*self._rings, *uses}:
            ring = self._rings.setdefault(key, deque([NOTHING] * gaps, maxlen=KEPT))
            ring.append(uses.get(key, NOTHING))
        self._rings = {key: ring for key, ring in self._rings.items() if any(use != NOTHING for use in ring)}

    def of(self, key: Key) -> Sequence[Seen]:
        """The values of a vGPU or GPU at all kept readings, the newest last; empty if none is known."""
        return tuple(self._rings.get(key, ()))


def _of_vgpu(row: Row) -> Seen:
    used = _percent(row.vgpu.framebuffer_used_bytes, row.vgpu.framebuffer_size_bytes)
    return Seen(row.load.sm if row.load else None, used)


def _percent(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None
