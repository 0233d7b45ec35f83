"""A step as it comes over the wire; every key is checked before anything is done with it.

The addresses and the uuid become parts of paths that root writes to, so their syntax must match exactly.
"""

import functools
import re
from typing import Any, Callable, Dict, Optional, Tuple

from ..facts.module import FOLDER, MOST_BYTES
from ..facts.pci import ADDRESS
from ..facts.scheduler import ENGINES, GRAPHICS
from ..fields import (
    Check,
    Checks,
    check_fields,
    is_count,
    is_text,
    is_unsigned,
    matches,
    one_of,
    reader,
    refuse,
    type_check,
)
from ..ledger.ledger import Entry
from ..protocol import steps
from ..protocol.gpu import Policy
from ..protocol.ledger import EntryState, OurVgpu
from .device_xml import read_source

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LONGEST = 1000  # characters of each text of a cordon or reservation


def _is_document(value: object) -> bool:
    """Whether C and UTF-8 accept the whole text. A zero byte would end it in C; UTF-8 has no half surrogate pairs."""
    return isinstance(value, str) and "\0" not in value and not re.search("[\ud800-\udfff]", value)


def _is_file_text(value: object) -> bool:
    return isinstance(value, str) and _is_document(value) and len(value.encode("utf-8")) <= MOST_BYTES


def _is_vgpu(value: object) -> bool:
    return isinstance(value, str) and read_source(value) is not None


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def _expecting(*words: str) -> Checks:
    return {"expect": (one_of(*words), "one of {}".format(", ".join(words)))}


_ADDRESS = (matches(ADDRESS.pattern), "a PCI address")
_UNSIGNED: Tuple[Check, str] = (is_unsigned, "a 32-bit number")
_SHORT = (_is_short, "a line of at most {} characters".format(_LONGEST))
_FILE_TEXT = (_is_file_text, "a text of at most {} KiB".format(MOST_BYTES // 1024))

# What is narrower than the type, by key; then what is only so in some steps.
_KEYS: Checks = {
    "vm_uuid": (matches(_UUID), "a VM's uuid in lower case"),
    "uuid": (matches(_UUID), "a uuid in lower case"),
    "slot": (matches(r"[A-Za-z0-9_-]{1,16}"), "a slot name"),
    "gpu_uuid": (is_text, "a GPU UUID"),
    "gpu": _ADDRESS,
    "parent": _ADDRESS,
    "param": (matches(r"[a-z_]{1,40}=[01](,[a-z_]{1,40}=[01]){0,9}"), "plugin parameters, each 0 or 1"),
    "profile": (matches(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}"), "the name of a GPU instance profile"),
    "profile_id": _UNSIGNED,
    "start": _UNSIGNED,
    "size": (lambda value: is_unsigned(value) and value != 0, "a 32-bit number above 0"),
    "api": (lambda value: is_count(value) and value in (1, 2), "1 or 2"),
    "averaging_factor": _UNSIGNED,
    "frequency_hz": _UNSIGNED,
    "time_slice_ns": _UNSIGNED,
    "path": (
        matches(re.escape(FOLDER) + r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\.conf"),
        "a file {}/NAME.conf".format(FOLDER),
    ),
    "text": _FILE_TEXT,
    "reason": _SHORT,
    "owner": _SHORT,
    "taker": _SHORT,
    "by": _SHORT,
    "at": _SHORT,
    "key": (lambda value: is_text(value) and _is_document(value), "a text"),
    "uri": (matches(r"urn:vgpumgr:domain:[1-9][0-9]{0,3}"), "a namespace of vgpumgr"),
}
_VGPU_XML: Checks = {"xml": (_is_vgpu, "the XML of a vGPU's host device")}
_STEPS: Dict[str, Tuple[Any, Checks]] = {
    steps.CREATE_VGPU: (steps.Step, _expecting(steps.EMPTY, steps.SAME)),
    steps.DESTROY_VGPU: (steps.Step, _expecting(steps.PRESENT, steps.ABSENT)),
    steps.EVACUATE_VGPU: (steps.Step, _expecting(steps.PRESENT)),
    steps.SET_SCHEDULER: (steps.SchedulerStep, {}),
    steps.SET_MODE: (steps.ModeStep, {}),
    steps.WRITE_MODPROBE: (steps.ModprobeStep, {"expect": _FILE_TEXT}),
    steps.SET_CORDON: (steps.CordonStep, {}),
    steps.SET_RESERVATION: (steps.ReservationStep, {}),
    steps.CREATE_INSTANCE: (steps.InstanceStep, _expecting(steps.EMPTY, steps.SAME)),
    steps.DESTROY_INSTANCE: (steps.InstanceStep, _expecting(steps.PRESENT, steps.ABSENT)),
    steps.SET_MIG: (steps.MigModeStep, {}),
    steps.SET_VFS: (steps.VfsStep, {}),
    steps.RESET_GPU: (steps.ResetStep, {}),
    steps.SET_METADATA: (
        steps.MetadataStep,
        {"xml": (lambda value: is_text(value) and _is_document(value), "a text of XML")},
    ),
    steps.ATTACH_DEVICE: (steps.DeviceStep, _VGPU_XML),
    steps.DETACH_DEVICE: (steps.DeviceStep, _VGPU_XML),
    steps.PLUG_DEVICE: (steps.DeviceStep, _VGPU_XML),
    steps.UNPLUG_DEVICE: (steps.DeviceStep, _VGPU_XML),
    steps.START_DOMAIN: (steps.StartStep, {}),
}


def parse_step(data: object) -> steps.AnyStep:
    """The step, without keys that such a step does not have. Raises Refusal(BadRequest) naming the wrong key."""
    verb = check_fields(data, {"verb": (one_of(*_STEPS), "one of {}".format(", ".join(_STEPS)))}, "step")["verb"]
    step: steps.AnyStep = _reader(verb)(data)
    if verb in _TOGETHER:
        _TOGETHER[verb](step)
    return step


@functools.lru_cache(maxsize=None)
def _reader(verb: str) -> Callable[[object], Any]:
    shape, own = _STEPS[verb]
    return reader(shape, "step", {**_KEYS, **own})


def _check_vgpu(step: steps.Step) -> None:
    if (
        step["type_id"] == 0 and step["expect"] != steps.ABSENT
    ):  # 0 is no type: written to a VF, it removes what is there
        refuse("only the entry of a vGPU that is gone has no type: step.type_id must be a number above 0")
    if step["vf_index"] is None and step["uuid"] is None:
        refuse("a vGPU on a physical function is an mdev, so step.uuid must be set")


def _check_scheduler(step: steps.SchedulerStep) -> None:
    setting, expect = step["setting"], step["expect"]
    allowed = set(ENGINES) if step["api"] == 2 else {GRAPHICS}
    if GRAPHICS not in expect or not set(expect) <= allowed:
        refuse("step.expect must name graphics, and of the others only {}".format(", ".join(sorted(allowed))))
    check_fields(expect, dict.fromkeys(expect, type_check(Optional[Policy])), "step.expect")
    if setting["arr"] is False and (setting["averaging_factor"], setting["frequency_hz"]) != (None, None):
        refuse("step.setting: a frequency and an averaging factor belong to round robin that adapts (arr)")
    if setting["time_slice_ns"] is not None and setting["arr"] is not False:
        refuse("step.setting: a time slice belongs to round robin that does not adapt (arr false)")
    if step["api"] == 2 and setting["arr"] is False:
        refuse("step.setting: with api 2 round robin always adapts")


def _check_cordon(step: steps.CordonStep) -> None:
    if (step["gpu_uuid"] is None) != (step["gpu"] is None):
        refuse("step.gpu_uuid and step.gpu name one GPU, or both are null")


_TOGETHER: Dict[str, Callable[[Any], None]] = {  # what its keys must be together
    steps.CREATE_VGPU: _check_vgpu,
    steps.DESTROY_VGPU: _check_vgpu,
    steps.EVACUATE_VGPU: _check_vgpu,
    steps.SET_SCHEDULER: _check_scheduler,
    steps.SET_CORDON: _check_cordon,
}


def entry_of(step: steps.Step, *, boot: str, state: EntryState) -> Entry:
    """The ledger's entry for the vGPU that the step creates."""
    keys = {key: value for key, value in step.items() if key in OurVgpu.__annotations__}
    if step["mig"] is None:
        del keys["mig"]  # an older vgpumgr reads the file as long as nothing in it is MIG-backed
    return {**keys, "boot": boot, "state": state}
