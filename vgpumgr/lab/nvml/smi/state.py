"""The driver's state that the simulated nvidia-smi shows, read from the lab's state file, and the program's errors."""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import unquote

STATE_PATH = "/sys/kernel/debug/nvlab/nvml"
PATH_VARIABLE = "VGPUMGR_LAB_NVML"
FIRST_LINE = "nvlab 1"
LAST_LINE = "end"
ONE_READ = 1 << 20

_WORDS = (
    *("driver", "gpu", "type", "vgpu", "use", "caps", "scheduler", "fail", "places"),
    *("profile", "instance", "compute"),
)

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
RESET_REQUIRED = 16
IN_USE = 19
INSUFFICIENT_RESOURCES = 23
VERSION_MISMATCH = 18
UNKNOWN = 999
OTHER_ERROR = 255  # an exit status: "Other error or internal driver error occurred" (the manual page)

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
ERRORS = {
    INVALID_ARGUMENT: "Invalid Argument",
    NOT_SUPPORTED: "Not Supported",
    NO_PERMISSION: "Insufficient Permissions",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    NOT_FOUND: "Not Found",
    15: "GPU is lost.  Reboot the system to recover this GPU",
    RESET_REQUIRED: "GPU requires reset",
    VERSION_MISMATCH: "Driver/library version mismatch",
    IN_USE: "In use by another client",
    INSUFFICIENT_RESOURCES: "Insufficient Resources",
}

Row = dict[str, str]


class SmiError(Exception):
    """An error that ends the program. It has the text to print and the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class State(NamedTuple):
    """The lines of the state file, grouped by their first word.

    Each line is a plain {key: value}. A key that is missing is not supported or not known.
    """

    driver: Row
    gpus: list[Row]
    types: list[Row]
    vgpus: list[Row]
    uses: list[Row]
    caps: list[Row]
    schedulers: list[Row]
    fails: list[Row]
    places: list[Row]
    profiles: list[Row]
    instances: list[Row]
    computes: list[Row]

    @property
    def branch(self) -> int:
        """The driver's branch, for example 570 for 570.133.10; 0 if the version does not start with a number."""
        head = self.driver["version"].split(".")[0]
        return int(head) if head.isdigit() else 0

    @property
    def version_label(self) -> str:
        """The name of the field with the driver's version, which R595 renamed."""
        return "KMD Version" if self.branch >= 595 else "Driver Version"

    def types_of(self, gpu: Row, *, creatable: bool) -> list[Row]:
        return [row for row in self.types if row["gpu"] == gpu["index"] and (not creatable or row["creatable"] == "1")]

    def places_of(self, kind: Row) -> Row:
        """Return the row of a type's placements on its GPU; it is empty if the driver has none."""
        if "profile" in kind:
            return {}
        same = ("gpu", "fb_mib", "max")
        return next((row for row in self.places if all(row[key] == kind[key] for key in same)), {})

    def profiles_of(self, gpu: Row) -> list[Row]:
        """The GPU instance profiles of a GPU, in the order of the real tool's lists."""
        return [row for row in self.profiles if row["gpu"] == gpu["index"]]

    def instances_of(self, gpu: Row) -> list[Row]:
        return [row for row in self.instances if row["gpu"] == gpu["index"]]

    def computes_of(self, instance: Row) -> list[Row]:
        return [row for row in self.computes if row["instance"] == instance["serial"]]

    def vgpus_of(self, gpu: Row) -> list[Row]:
        return [row for row in self.vgpus if row["gpu"] == gpu["index"]]

    def failure(self, function: str, gpu: Row) -> int:
        """Return the code of the error that the lab injects into that NVML function on that GPU; 0 for none."""
        for fail in self.fails:
            if fail["function"] in (function, "*") and fail.get("pci", gpu["pci"]) == gpu["pci"]:
                return int(fail["code"])
        return 0

    def type_of(self, vgpu: Row) -> Row:
        return next((row for row in self.types if row["id"] == vgpu["type"]), {})


def read_state() -> State:
    """The current state. Raises SmiError if the driver is not loaded."""
    try:
        lines = read_once(state_path()).decode("ascii").splitlines()
    except PermissionError:
        raise SmiError("Failed to initialize NVML: Insufficient Permissions", NO_PERMISSION) from None
    except (OSError, ValueError):
        raise SmiError(NO_DRIVER, DRIVER_NOT_LOADED) from None
    if lines[:1] != [FIRST_LINE]:
        raise SmiError("Failed to initialize NVML: Driver/library version mismatch", VERSION_MISMATCH)
    if LAST_LINE not in lines:
        raise SmiError("Failed to initialize NVML: Unknown Error", UNKNOWN)
    rows = parse_rows(lines[1 : lines.index(LAST_LINE)])
    driver, *_ = rows["driver"]
    state = State(driver, *(rows[word] for word in _WORDS[1:]))
    for fail in state.fails:
        if "pci" not in fail and fail["function"] in ("nvmlInit_v2", "nvmlInitWithFlags", "*"):
            code = int(fail["code"])
            if code == DRIVER_NOT_LOADED:
                raise SmiError(NO_DRIVER, code)
            raise SmiError("Failed to initialize NVML: " + ERRORS.get(code, "Unknown Error"), code)
    return state


def state_path() -> str:
    return os.environ.get(PATH_VARIABLE) or STATE_PATH


def read_once(path: str) -> bytes:
    """The file's content by one read(2): it is generated for each read, so this is the state of one moment."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, ONE_READ)
    finally:
        os.close(descriptor)


def parse_rows(lines: list[str]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {word: [] for word in _WORDS}
    for line in lines:
        word, *tokens = line.split(" ")
        pairs = (token.partition("=") for token in tokens)
        rows.setdefault(word, []).append({key: unquote(value, errors="surrogateescape") for key, _, value in pairs})
    return rows


def choose(state: State, asked: str | None) -> list[Row]:
    """Return the GPUs that option -i names (`asked`), or all GPUs if it is None.

    Raises SmiError if there is none, or if one of them has fallen off the bus: that ends the real tool as well.
    """
    gpus = state.gpus
    if asked is not None:
        gpus = [gpu for name in asked.split(",") for gpu in state.gpus if is_gpu(gpu, name.strip())]
        if not gpus:
            raise SmiError("No devices were found", NOT_FOUND)
    for gpu in gpus:
        for fail in state.fails:
            if fail.get("pci") == gpu["pci"] and fail["function"] == "*":
                code = int(fail["code"])
                raise SmiError(
                    "Unable to determine the device handle for GPU{}: {}: {}".format(
                        gpu["index"], gpu["pci"].upper(), ERRORS.get(code, "Unknown Error")
                    ),
                    code,
                )
    if not gpus:
        raise SmiError("No devices were found", NOT_FOUND)
    return gpus


def is_gpu(gpu: Row, name: str) -> bool:
    if name.isdigit() and len(name) < 5:
        return name == gpu["index"]
    return name == gpu["uuid"] or address_of(name) == address_of(gpu["pci"])


def address_of(text: str) -> tuple[int, ...] | None:
    """Parse a PCI address into domain, bus, device and function. The domain can be missing or have eight digits.

    Returns None if the text is not an address.
    """
    match = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", text.lower())
    return tuple(int(part or "0", 16) for part in match.groups()) if match else None


def bus_id(gpu: Row) -> str:
    """Return the GPU's PCI address as NVML writes it: in upper case, with eight digits for the domain."""
    domain, bus, device, _ = address_of(gpu["pci"]) or (0, 0, 0, 0)
    return f"{domain:08X}:{bus:02X}:{device:02X}.0"
