"""The steps that change a GPU's or the module's settings, as they come over the wire: checked like the vGPU steps."""

import re
from typing import Dict, cast

from ..facts.module import FOLDER, MOST_BYTES
from ..facts.pci import ADDRESS
from ..facts.scheduler import ENGINES, GRAPHICS
from ..fields import (
    Check,
    Checks,
    check_fields,
    is_count,
    is_flag,
    is_object,
    is_text,
    is_unsigned,
    matches,
    one_of,
    or_null,
    refuse,
)
from ..protocol import (
    BEST_EFFORT,
    EQUAL_SHARE,
    EQUAL_SIZE,
    FIXED_SHARE,
    MIXED_SIZE,
    ModeStep,
    ModprobeStep,
    SchedulerStep,
)

_POLICY = one_of(BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE)
_POLICY_WORDS = "{}, {} or {}".format(BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE)
_CONF = re.escape(FOLDER) + r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\.conf"


def _is_file_text(value: object) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        return len(value.encode("utf-8")) <= MOST_BYTES
    except UnicodeEncodeError:  # half a surrogate pair, which JSON accepts
        return False


_UNSIGNED: Check = or_null(is_unsigned)

_SETTING: Checks = {
    "policy": (_POLICY, _POLICY_WORDS),
    "arr": (or_null(is_flag), "true, false or null"),
    "averaging_factor": (_UNSIGNED, "a 32-bit number or null"),
    "frequency_hz": (_UNSIGNED, "a 32-bit number or null"),
    "time_slice_ns": (_UNSIGNED, "a 32-bit number or null"),
}

_OF_GPU: Checks = {
    "verb": (is_text, "a text"),
    "gpu_uuid": (is_text, "a GPU UUID"),
    "gpu": (matches(ADDRESS.pattern), "a PCI address"),
}

_SCHEDULER: Checks = {
    **_OF_GPU,
    "api": (lambda value: is_count(value) and value in (1, 2), "1 or 2"),
    "setting": (is_object, "an object"),
    "expect": (is_object, "an object"),
}

_MODE = (one_of(EQUAL_SIZE, MIXED_SIZE), "{} or {}".format(EQUAL_SIZE, MIXED_SIZE))
_MODES: Checks = {**_OF_GPU, "mode": _MODE, "expect": _MODE}

_MODPROBE: Checks = {
    "verb": (is_text, "a text"),
    "path": (matches(_CONF), "a file {}/NAME.conf".format(FOLDER)),
    "text": (or_null(_is_file_text), "a text of at most {} KiB, or null".format(MOST_BYTES // 1024)),
    "expect": (or_null(_is_file_text), "a text of at most {} KiB, or null".format(MOST_BYTES // 1024)),
}


def parse_scheduler_step(data: object) -> SchedulerStep:
    """Raises Refusal(BadRequest)."""
    step = check_fields(data, _SCHEDULER, "step")
    setting = check_fields(step["setting"], _SETTING, "step.setting")
    expect: Dict[str, object] = step["expect"]
    allowed = set(ENGINES) if step["api"] == 2 else {GRAPHICS}
    if GRAPHICS not in expect or not set(expect) <= allowed:
        refuse("step.expect must name graphics, and of the others only {}".format(", ".join(sorted(allowed))))
    check_fields(expect, {engine: (or_null(_POLICY), _POLICY_WORDS + ", or null") for engine in expect}, "step.expect")
    if setting["arr"] is False and (setting["averaging_factor"], setting["frequency_hz"]) != (None, None):
        refuse("step.setting: a frequency and an averaging factor belong to round robin that adapts (arr)")
    if setting["time_slice_ns"] is not None and setting["arr"] is not False:
        refuse("step.setting: a time slice belongs to round robin that does not adapt (arr false)")
    if step["api"] == 2 and setting["arr"] is False:
        refuse("step.setting: with api 2 round robin always adapts")
    return cast("SchedulerStep", {**step, "setting": setting})


def parse_mode_step(data: object) -> ModeStep:
    """Raises Refusal(BadRequest)."""
    return cast("ModeStep", check_fields(data, _MODES, "step"))


def parse_modprobe_step(data: object) -> ModprobeStep:
    """Raises Refusal(BadRequest)."""
    return cast("ModprobeStep", check_fields(data, _MODPROBE, "step"))
