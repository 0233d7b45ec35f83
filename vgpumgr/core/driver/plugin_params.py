"""A vGPU's plugin parameters, as NVIDIA's guides write them into nvidia/vgpu_params: `enable_uvm=1,frame_rate_limiter=0`.

The names are those of the Virtual GPU Software User Guide (release 19, "Setting vGPU Plugin Parameters on a Linux with KVM Hypervisor",
and the sections on unified memory, development tools, the frame-rate limiter and VNC). Each is a switch, 0 or 1.
"""

from __future__ import annotations

from typing import Final

from vgpumgr.errors import BadName

NAMES: Final = ("disable_vnc", "enable_debugging", "enable_profiling", "enable_uvm", "frame_rate_limiter")
_PLACEMENT: Final = "vgpu-placement-id"


def parse(text: str) -> str:
    """One or several, separated by commas, in the order of their names. Raises BadName."""
    found: dict[str, str] = {}
    for pair in text.split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        if name == _PLACEMENT:
            raise BadName(f"{_PLACEMENT} is not asked for: vgpumgr places the vGPU", hint="leave it out")
        if name not in NAMES:
            raise BadName(f"{name[:40]!r} is no plugin parameter", hint=f"one of {', '.join(NAMES)}")
        if value not in ("0", "1"):
            raise BadName(f"{name} is {value[:40]!r}, which is neither 0 nor 1", hint=f"for example {name}=1")
        if found.setdefault(name, value) != value:
            raise BadName(f"{name} is both 0 and 1", hint="give it once")
    return ",".join(f"{name}={found[name]}" for name in sorted(found))


def known(text: str) -> str | None:
    """What `parse` returns; None if the text has a name or value that only another version of vgpumgr knows."""
    try:
        return parse(text)
    except BadName:
        return None


def missing(asked: str | None, given: str | None) -> str | None:
    """The parameters that were asked for and that the vGPU was not given; None if it has them all."""
    there = (given or "").split(",")
    return ",".join(pair for pair in (asked or "").split(",") if pair and pair not in there) or None


def over(before: str | None, asked: str | None) -> str | None:
    """`before` with what is asked for now in place of its own values: a parameter that is left out stays as it is."""
    pairs = {pair.partition("=")[0]: pair for text in (before, asked) if text for pair in text.split(",")}
    return ",".join(pairs[name] for name in sorted(pairs)) or None
