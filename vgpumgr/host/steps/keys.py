"""The keys of steps as they come over the wire: what is narrower than their types.

The addresses and the uuid become parts of paths that root writes to, so their syntax must match exactly.
"""

import re
from typing import Tuple

from ..facts.module import FOLDER, MOST_BYTES
from ..facts.pci import ADDRESS
from ..fields import Check, Checks, is_count, is_text, is_unsigned, matches, one_of, refuse
from ..protocol.steps import ABSENT, Step
from .device_xml import read_source

_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_LONGEST = 1000  # characters of each text of a cordon or reservation


def _is_document(value: object) -> bool:
    """Whether C and UTF-8 accept the whole text. A zero byte would end it in C; UTF-8 has no half surrogate pairs."""
    return isinstance(value, str) and "\0" not in value and not re.search("[\ud800-\udfff]", value)


def _is_full(value: object) -> bool:
    return is_text(value) and _is_document(value)


def _is_file_text(value: object) -> bool:
    return isinstance(value, str) and _is_document(value) and len(value.encode("utf-8")) <= MOST_BYTES


def _is_vgpu(value: object) -> bool:
    return isinstance(value, str) and read_source(value) is not None


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


def expecting(*words: str) -> Checks:
    return {"expect": (one_of(*words), "one of {}".format(", ".join(words)))}


_ADDRESS = (matches(ADDRESS.pattern), "a PCI address")
UNSIGNED: Tuple[Check, str] = (is_unsigned, "a 32-bit number")
SHORT = (_is_short, "a line of at most {} characters".format(_LONGEST))
FILE_TEXT = (_is_file_text, "a text of at most {} KiB".format(MOST_BYTES // 1024))
XML: Checks = {"xml": (_is_full, "a text of XML")}
VGPU_XML: Checks = {"xml": (_is_vgpu, "the XML of a vGPU's host device")}

KEYS: Checks = {  # of every step that has such a key
    "vm_uuid": (matches(_UUID), "a VM's uuid in lower case"),
    "uuid": (matches(_UUID), "a uuid in lower case"),
    "slot": (matches(r"[A-Za-z0-9_-]{1,16}"), "a slot name"),
    "gpu_uuid": (is_text, "a GPU UUID"),
    "gpu": _ADDRESS,
    "vf": _ADDRESS,
    "parent": _ADDRESS,
    "param": (matches(r"[a-z_]{1,40}=[01](,[a-z_]{1,40}=[01]){0,9}"), "plugin parameters, each 0 or 1"),
    "profile": (matches(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}"), "the name of a GPU instance profile"),
    "profile_id": UNSIGNED,
    "start": UNSIGNED,
    "size": (lambda value: is_unsigned(value) and value != 0, "a 32-bit number above 0"),
    "api": (lambda value: is_count(value) and value in (1, 2), "1 or 2"),
    "averaging_factor": UNSIGNED,
    "frequency_hz": UNSIGNED,
    "time_slice_ns": UNSIGNED,
    "path": (
        matches(re.escape(FOLDER) + r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\.conf"),
        "a file {}/NAME.conf".format(FOLDER),
    ),
    "text": FILE_TEXT,
    "reason": SHORT,
    "owner": SHORT,
    "taker": SHORT,
    "by": SHORT,
    "at": SHORT,
    "key": (_is_full, "a text"),
    "uri": (matches(r"urn:vgpumgr:domain:[1-9][0-9]{0,3}"), "a namespace of vgpumgr"),
}


def check_vgpu(step: Step) -> None:
    if step["type_id"] == 0 and step["expect"] != ABSENT:  # 0 is no type: written to a VF, it removes what is there
        refuse("only the entry of a vGPU that is gone has no type: step.type_id must be a number above 0")
    if step["vf_index"] is None and step["uuid"] is None:
        refuse("a vGPU on a physical function is an mdev, so step.uuid must be set")
