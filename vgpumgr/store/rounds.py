"""A host's last round as JSON and back; the error's name is kept, the error itself is not.

If a round's fields change, the stored ones must be migrated: tests/unit/store/test_samples.py pins the fields.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.usage.guest import Guest
from vgpumgr.core.usage.readings import (
    Cursor,
    GpuCursor,
    GpuReading,
    Holder,
    HostReading,
    Load,
    Measured,
    Round,
    VgpuReading,
)


def to_json(one: Round) -> str:
    return json.dumps(asdict(replace(one, failure=None)), default=_plain, separators=(",", ":"))


def from_json(text: str) -> Round:
    values: dict[str, Any] = json.loads(text)
    reading = values["reading"]
    return Round(
        **{
            **values,
            "reading": None if reading is None else _reading(reading),
            "measured": tuple(
                Measured(**{**row, "vgpu": _vgpu(row["vgpu"]), "load": Load(**row["load"])})
                for row in values["measured"]
            ),
            "cursor": _cursor(values["cursor"]),
        }
    )


def without_vm(text: str, name: str) -> str:
    """A round's JSON without what it says of a VM, by name or UUID."""
    return json.dumps(_without(json.loads(text), name), separators=(",", ":"))


def _without(value: Any, name: str) -> Any:
    if isinstance(value, list):
        return [_without(one, name) for one in value if not _is_of(one, name)]
    return {key: _without(one, name) for key, one in value.items()} if isinstance(value, dict) else value


def _is_of(value: Any, name: str) -> bool:
    """Whether the value is a reading or a measure of a vGPU of that VM."""
    return isinstance(value, dict) and (
        name in (value.get("vm"), value.get("vm_uuid")) or _is_of(value.get("vgpu"), name)
    )


def cursor_to_json(cursor: Cursor) -> str:
    return json.dumps(asdict(cursor), default=_plain, separators=(",", ":"))


def cursor_from_json(text: str) -> Cursor:
    return _cursor(json.loads(text))


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"no form for a {type(value).__name__}")


def _reading(values: dict[str, Any]) -> HostReading:
    return HostReading(
        **{
            **values,
            "gpus": tuple(
                GpuReading(
                    **{
                        **gpu,
                        "vgpus": tuple(_vgpu(vgpu) for vgpu in gpu["vgpus"]),
                        "holders": tuple(Holder(**holder) for holder in gpu.get("holders", ())),
                    }
                )
                for gpu in values["gpus"]
            ),
            "unknown": tuple(Unknown(**unknown) for unknown in values["unknown"]),
        }
    )


def _vgpu(values: dict[str, Any]) -> VgpuReading:
    entitled, load, guest = values["entitled"], values["load"], values.get("guest")
    return VgpuReading(
        **{
            **values,
            "entitled": None if entitled is None else Fraction(entitled),
            "instances": tuple(values["instances"]),
            "load": None if load is None else Load(**load),
            "guest": None if guest is None else Guest(**guest),
        }
    )


def _cursor(values: dict[str, Any]) -> Cursor:
    gpus = {
        pci: GpuCursor(at_us=gpu["at_us"], instances=frozenset(gpu["instances"])) for pci, gpu in values["gpus"].items()
    }
    return Cursor(boot=values["boot"], gpus=gpus)
