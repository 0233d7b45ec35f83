"""A vGPU's plugin parameters, as they are written to nvidia/vgpu_params: `enable_uvm=1,frame_rate_limiter=0`.

Source of the names: Virtual GPU Software User Guide, release 19, "Setting vGPU Plugin Parameters on a Linux with KVM
Hypervisor", and its sections on unified memory, development tools, frame-rate limiter and VNC. Each is either 0 or 1.
"""

from __future__ import annotations

from typing import Final

from vgpumgr.errors import BadName

NAMES: Final = ("disable_vnc", "enable_debugging", "enable_profiling", "enable_uvm", "frame_rate_limiter")
_PLACEMENT: Final = "vgpu-placement-id"


def parse(text: str) -> str:
    """Parameters separated by commas, sorted by name. Raises BadName."""
    values: dict[str, str] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name == _PLACEMENT:
            raise BadName(f"{_PLACEMENT} is not asked for: vgpumgr places the vGPU", hint="leave it out")
        if name not in NAMES:
            raise BadName(f"{name[:40]!r} is no plugin parameter", hint=f"one of {', '.join(NAMES)}")
        if value not in ("0", "1"):
            raise BadName(f"{name} is {value[:40]!r}, which is neither 0 nor 1", hint=f"for example {name}=1")
        if values.setdefault(name, value) != value:
            raise BadName(f"{name} is both 0 and 1", hint="give it once")
    return ",".join(f"{name}={values[name]}" for name in sorted(values))


def known(text: str) -> str | None:
    """Parameters separated by commas, sorted by name; None if this version of vgpumgr does not know all of them."""
    try:
        return parse(text)
    except BadName:
        return None


def missing(asked: str | None, given: str | None) -> str | None:
    """The requested parameters that the vGPU lacks; None if it has them all."""
    pairs = (given or "").split(",")
    return ",".join(pair for pair in (asked or "").split(",") if pair and pair not in pairs) or None


def over(before: str | None, asked: str | None) -> str | None:
    """`before`, overridden by `asked`; a parameter that is not asked for keeps its value."""
    pairs = {pair.partition("=")[0]: pair for text in (before, asked) if text for pair in text.split(",")}
    return ",".join(pairs[name] for name in sorted(pairs)) or None
