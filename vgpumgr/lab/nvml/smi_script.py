#!/usr/bin/python3
"""nvidia-smi, simulated: reads the lab driver's state and prints it in the real tool's formats.

    nvidia-smi [-i ID]              nvidia-smi vgpu [-i ID]
    nvidia-smi -L                   nvidia-smi vgpu -q [-i ID]
    nvidia-smi -q [-i ID]           nvidia-smi vgpu -s|-c [-v] [-i ID]

ID is an index, a PCI bus id or a GPU's UUID, or several with commas. The exit status is NVML's error number. The formats
are those of public captures of R535 to R595; fields that the lab has no state for are left out or say N/A.
This file is installed alone on a simulated host: standard library only, Python 3.9.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable

STATE_PATH = "/sys/kernel/debug/nvlab/nvml"
PATH_VARIABLE = "VGPUMGR_LAB_NVML"
FIRST_LINE = "nvlab 1"
LAST_LINE = "end"
ONE_READ = 1 << 20

INVALID_ARGUMENT = 2
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
VERSION_MISMATCH = 18
UNKNOWN = 999

NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n"
)
ERRORS = {
    3: "Not Supported",
    4: "Insufficient Permissions",
    DRIVER_NOT_LOADED: "Driver Not Loaded",
    15: "GPU is lost.  Reboot the system to recover this GPU",
    VERSION_MISMATCH: "Driver/library version mismatch",
}

Row = dict[str, str]


class SmiError(Exception):
    """Ends the program: what is printed, and the exit status."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


class State(NamedTuple):
    """The state's lines, by word. Rows are plain {key: value}; a key that is not there is not supported or not known."""

    driver: Row
    gpus: list[Row]
    types: list[Row]
    vgpus: list[Row]
    fails: list[Row]

    @property
    def branch(self) -> int:
        """570 for 570.133.10."""
        head = self.driver["version"].split(".")[0]
        return int(head) if head.isdigit() else 0

    @property
    def version_label(self) -> str:
        """R595 renamed the field."""
        return "KMD Version" if self.branch >= 595 else "Driver Version"

    def types_of(self, gpu: Row, *, creatable: bool) -> list[Row]:
        return [row for row in self.types if row["gpu"] == gpu["index"] and (not creatable or row["creatable"] == "1")]

    def vgpus_of(self, gpu: Row) -> list[Row]:
        return [row for row in self.vgpus if row["gpu"] == gpu["index"]]

    def type_of(self, vgpu: Row) -> Row:
        return next((row for row in self.types if row["id"] == vgpu["type"]), {})


def main(arguments: list[str]) -> int:
    """Parse, read, print. Gives the exit status."""
    try:
        request = parse(arguments)
        if request.view is show_help:
            say(__doc__ or "")
            return 0
        state = read_state()
        say("\n".join(request.view(state, choose(state, request.gpu))))
    except SmiError as error:
        say(error.text)
        return error.status & 0xFF
    return 0


def say(text: str) -> None:
    """To stdout in UTF-8, whatever the locale; a VM's name may hold bytes that are not even that."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


# What was asked


class Request(NamedTuple):
    view: Callable[[State, list[Row]], list[str]]
    gpu: str | None


def parse(arguments: list[str]) -> Request:
    """The views by their options; what is not simulated is refused as the real tool refuses what it does not know."""
    views: dict[str, Callable[[State, list[Row]], list[str]]] = {
        "": show_summary,
        "-L": show_list,
        "-q": show_query,
        "-h": show_help,
        "vgpu": show_vgpus,
        "vgpu -q": show_vgpu_query,
        "vgpu -s": partial(show_types, creatable=False),
        "vgpu -s -v": partial(show_type_blocks, creatable=False),
        "vgpu -c": partial(show_types, creatable=True),
        "vgpu -c -v": partial(show_type_blocks, creatable=True),
        "vgpu -h": show_help,
    }
    short = {
        "--list-gpus": "-L",
        "--query": "-q",
        "--supported": "-s",
        "--creatable": "-c",
        "--verbose": "-v",
        "--id": "-i",
        "--help": "-h",
    }
    rest = list(arguments)
    command = [rest.pop(0)] if rest[:1] == ["vgpu"] else []
    gpu = None
    options = set()
    while rest:
        word, has_value, value = rest.pop(0).partition("=")
        option = short.get(word, word)
        if option == "-i":
            if not has_value and not rest:
                raise SmiError(f"Missing value for option {word}. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
            gpu = value if has_value else rest.pop(0)
        elif option in short.values() and not has_value:
            options.add(option)
        else:
            raise SmiError(f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
    view = views.get(" ".join(command + sorted(options)))
    if view is None:
        raise SmiError("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.", INVALID_ARGUMENT)
    return Request(view, gpu)


def choose(state: State, asked: str | None) -> list[Row]:
    """The GPUs of -i, or all. One that has fallen off the bus ends the program, as in the real tool."""
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
    """Domain, bus, device, function; the domain may be missing, or have eight digits. None for what is no address."""
    found = re.fullmatch(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])", text.lower())
    return tuple(int(part or "0", 16) for part in found.groups()) if found else None


# What the driver says


def read_state() -> State:
    """The state, read afresh. SmiError where the driver is not there."""
    path = os.environ.get(PATH_VARIABLE) or STATE_PATH
    try:
        lines = read_once(path).decode("ascii").splitlines()
    except PermissionError:
        raise SmiError("Failed to initialize NVML: Insufficient Permissions", 4) from None
    except (OSError, ValueError):
        raise SmiError(NO_DRIVER, DRIVER_NOT_LOADED) from None
    if lines[:1] != [FIRST_LINE]:
        raise SmiError("Failed to initialize NVML: Driver/library version mismatch", VERSION_MISMATCH)
    if LAST_LINE not in lines:
        raise SmiError("Failed to initialize NVML: Unknown Error", UNKNOWN)
    rows = parse_rows(lines[1 : lines.index(LAST_LINE)])
    state = State(rows["driver"][0], rows["gpu"], rows["type"], rows["vgpu"], rows["fail"])
    for fail in state.fails:
        if "pci" not in fail and fail["function"] in ("nvmlInit_v2", "nvmlInitWithFlags", "*"):
            code = int(fail["code"])
            if code == DRIVER_NOT_LOADED:
                raise SmiError(NO_DRIVER, code)
            raise SmiError("Failed to initialize NVML: " + ERRORS.get(code, "Unknown Error"), code)
    return state


def read_once(path: str) -> bytes:
    """In one read(2), because the file is made anew for each: one moment's state."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, ONE_READ)
    finally:
        os.close(descriptor)


def parse_rows(lines: list[str]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {word: [] for word in ("driver", "gpu", "type", "vgpu", "fail")}
    for line in lines:
        word, *tokens = line.split(" ")
        pairs = (token.partition("=") for token in tokens)
        rows.setdefault(word, []).append({key: unquote(value, errors="surrogateescape") for key, _, value in pairs})
    return rows


def bus_id(gpu: Row) -> str:
    """NVML's form: eight upper-case digits of domain."""
    domain, bus, device, _ = address_of(gpu["pci"]) or (0, 0, 0, 0)
    return f"{domain:08X}:{bus:02X}:{device:02X}.0"


def switch(value: str | None) -> str:
    """Of a mode that can be on: Enabled or Disabled; N/A where the board does not have it."""
    return "N/A" if value is None else ("Disabled" if value == "0" else "Enabled")


def cut(text: str, width: int) -> str:
    """The boxed tables cut what does not fit."""
    return text if len(text) <= width else text[: width - 3] + "..."


# Views


def show_help(_: State, __: list[Row]) -> list[str]:
    return [__doc__ or ""]


def show_list(_: State, gpus: list[Row]) -> list[str]:
    return ["GPU {index}: {name} (UUID: {uuid})".format(**gpu) for gpu in gpus]


def show_summary(state: State, gpus: list[Row]) -> list[str]:
    version = state.driver["version"]
    lines = [
        now(),
        "+" + "-" * 89 + "+",
        f"| NVIDIA-SMI {version:<22} {state.version_label}: {version:<14} CUDA Version: N/A".ljust(90) + "|",
        "|" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "|",
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|" + "=" * 41 + "+" + "=" * 24 + "+" + "=" * 22 + "|",
    ]
    for gpu in gpus:
        used = f"{gpu['used_mib']}MiB / {int(gpu['fb_mib']):>6}MiB"
        lines += [
            f"| {gpu['index']:>3}  {cut(gpu['name'], 27):<27}    On  |   {bus_id(gpu)} Off |                  N/A |",
            f"| N/A   N/A   N/A            N/A /  N/A   | {used:>22} |      0%      Default |",
            f"|                                         |                        | {switch(gpu.get('mig')):>20} |",
            "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+",
        ]
    lines += [
        "",
        "+" + "-" * 89 + "+",
        "| Processes:".ljust(90) + "|",
        "|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |",
        "|        ID   ID                                                               Usage      |",
        "|" + "=" * 89 + "|",
    ]
    # A running vGPU shows as its vgpu process, type M+C+G, with all of its framebuffer.
    held = [(gpu, vgpu) for gpu in gpus for vgpu in state.vgpus_of(gpu) if "vm_uuid" in vgpu]
    for gpu, vgpu in held:
        memory = state.type_of(vgpu)["fb_mib"] + "MiB"
        row = f" {gpu['index']:>4}   N/A  N/A {'N/A':>9}    M+C+G   vgpu"
        lines.append(f"|{row:<77}{memory:>11} |")
    if not held:
        lines.append("|  No running processes found".ljust(90) + "|")
    return [*lines, "+" + "-" * 89 + "+"]


def show_query(state: State, gpus: list[Row]) -> list[str]:
    lines = ["", "==============NVSMI LOG==============", ""]
    lines += fields(
        state,
        0,
        [
            ("Timestamp", now()),
            (state.version_label, state.driver["version"]),
            ("CUDA Version", "N/A"),
            ("vGPU Driver Capability", None),
            ("    Heterogenous Multi-vGPU", "Supported"),  # so spelt by the real tool
        ],
    )
    lines += ["", *fields(state, 0, [("Attached GPUs", str(len(state.gpus)))])]
    memory = "Shared FB Memory Usage" if state.branch >= 595 else "FB Memory Usage"
    for gpu in gpus:
        free = int(gpu["fb_mib"]) - int(gpu["used_mib"])
        domain, bus, device, _ = address_of(gpu["pci"]) or (0, 0, 0, 0)
        sizes = "Not Supported" if gpu.get("hetero") is None else "Supported"
        rows: list[tuple[str, str | None]] = [
            ("Product Name", gpu["name"]),
            ("Persistence Mode", "Enabled"),
            ("vGPU Device Capability", None),
            ("    Fractional Multi-vGPU", "Supported"),
            ("    Heterogeneous Time-Slice Profiles", "Supported"),
            ("    Heterogeneous Time-Slice Sizes", sizes),
            ("MIG Mode", None),
            ("    Current", switch(gpu.get("mig"))),
            ("    Pending", switch(gpu.get("mig"))),
            ("GPU UUID", gpu["uuid"]),
            ("GPU Virtualization Mode", None),
            ("    Virtualization Mode", "Host VGPU"),
            ("    Host VGPU Mode", "SR-IOV" if gpu["sriov"] == "1" else "Non SR-IOV"),
        ]
        if state.branch >= 550:
            rows.append(("    vGPU Heterogeneous Mode", switch(gpu.get("hetero"))))
        rows += [
            ("PCI", None),
            ("    Bus", f"0x{bus:02X}"),
            ("    Device", f"0x{device:02X}"),
            ("    Domain", f"0x{domain:04X}"),
            ("    Device Id", f"0x{int(gpu['device'], 0):08X}"),
            ("    Bus Id", bus_id(gpu)),
            ("    Sub System Id", f"0x{int(gpu['subsystem'], 0):08X}"),
            (memory, None),
            ("    Total", gpu["fb_mib"] + " MiB"),
            ("    Reserved", "0 MiB"),
            ("    Used", gpu["used_mib"] + " MiB"),
            ("    Free", f"{free} MiB"),
            ("Utilization", None),
            ("    GPU" if state.branch >= 580 else "    Gpu", "0 %"),
            ("    Memory", "0 %"),
        ]
        lines += ["GPU " + bus_id(gpu), *fields(state, 1, rows), ""]
    return lines


def show_vgpus(state: State, gpus: list[Row]) -> list[str]:
    """The boxed table.

    The real tool lists *active* vGPUs only, those that a running VM holds. The simulator also lists those that exist and
    that no VM holds, as VM `N/A`: without a hypervisor's guests there would be little to see. `vgpu -q` and NVML
    keep to the active ones.
    """
    version = state.driver["version"]
    rule = "+" + "-" * 33 + "+" + "-" * 30 + "+" + "-" * 12 + "+"
    label = state.version_label + ": " + version
    lines = [
        now(),
        "+" + "-" * 77 + "+",
        f"| NVIDIA-SMI {version:<22}{label:<43}|",
        "|" + rule[1:-1] + "+",
        "| GPU  Name                       | Bus-Id                       | GPU-Util   |",
        "|      vGPU ID     Name           | VM ID     VM Name            | vGPU-Util  |",
        "|" + rule[1:-1].replace("-", "=") + "|",
    ]
    for gpu in gpus:
        lines.append(f"| {gpu['index']:>3}  {cut(gpu['name'], 27):<27}| {bus_id(gpu):<29}|   0%       |")
        for vgpu in state.vgpus_of(gpu):
            name = cut(state.type_of(vgpu).get("name", "N/A"), 14)
            vm = cut(vgpu.get("vm_uuid", "N/A"), 7)
            vm_name = cut(vgpu.get("vm_name", "N/A"), 19)
            lines.append(f"|      {vgpu['instance']:<10}  {name:<14} | {vm:<7}  {vm_name:<19} |      0%    |")
        lines.append(rule)
    return lines


def show_vgpu_query(state: State, gpus: list[Row]) -> list[str]:
    lines: list[str] = []
    for gpu in gpus:
        active = [vgpu for vgpu in state.vgpus_of(gpu) if "vm_uuid" in vgpu]
        lines += ["GPU " + bus_id(gpu), *fields(state, 1, [("Active vGPUs", str(len(active)))])]
        for vgpu in active:
            lines += fields(state, 1, [("vGPU ID", vgpu["instance"])])
            lines += fields(state, 2, vgpu_rows(state, vgpu))
        lines.append("")
    return lines


def vgpu_rows(state: State, vgpu: Row) -> list[tuple[str, str | None]]:
    """One active vGPU. What only a guest's NVIDIA driver can tell is N/A while none runs."""
    kind = state.type_of(vgpu)
    used = int(vgpu.get("fb_used_mib", "0"))
    licences = {"5": "Licensed", "3": "Unlicensed (Restricted)", "2": "Unlicensed (Unrestricted)"}
    rows: list[tuple[str, str | None]] = [
        ("VM UUID", vgpu["vm_uuid"]),
        ("VM Name", vgpu.get("vm_name", "N/A")),
        ("vGPU Name", kind.get("name", "N/A")),
        ("vGPU Type", vgpu["type"]),
        ("vGPU UUID", vgpu["uuid"]),
        ("MDEV UUID", vgpu.get("mdev", "N/A")),
        ("Guest Driver Version", vgpu.get("guest_driver", "N/A")),
        ("License Status", licences.get(vgpu.get("licence", ""), "N/A") + " (Expiry: N/A)"),
        ("GPU Instance ID", "N/A"),
    ]
    if state.branch >= 550:
        rows.append(("Placement ID", vgpu.get("placement", "N/A")))
    rows += [
        ("Accounting Mode", "N/A"),
        ("ECC Mode", switch(vgpu.get("ecc"))),
        ("Accounting Buffer Size", "4000"),
        ("Frame Rate Limit", "N/A" if "guest_driver" not in vgpu else kind["frl"] + " FPS"),
        ("PCI", None),
        ("    Bus Id", "00000000:00:00.0"),
        ("FB Memory Usage", None),
        ("    Total", kind["fb_mib"] + " MiB"),
        ("    Used", f"{used} MiB"),
        ("    Free", f"{int(kind['fb_mib']) - used} MiB"),
        ("Utilization", None),
    ]
    engines = ["GPU", "Memory", "Encoder", "Decoder", "Jpeg", "Ofa"] if state.branch >= 550 else []
    rows += [("    " + name, "0 %") for name in engines or ["Gpu", "Memory", "Encoder", "Decoder"]]
    for title in ("Encoder Stats", "FBC Stats"):
        rows.append((title, None))
        rows += [("    " + name, "0") for name in ("Active Sessions", "Average FPS", "Average Latency")]
    return rows


def show_types(state: State, gpus: list[Row], *, creatable: bool) -> list[str]:
    lines: list[str] = []
    for gpu in gpus:
        kinds = state.types_of(gpu, creatable=creatable)
        lines += ["GPU " + bus_id(gpu), *("    " + kind["name"] for kind in kinds), ""]
    return lines


def show_type_blocks(state: State, gpus: list[Row], *, creatable: bool) -> list[str]:
    lines: list[str] = []
    for gpu in gpus:
        lines.append("GPU " + bus_id(gpu))
        for kind in state.types_of(gpu, creatable=creatable):
            rows: list[tuple[str, str | None]] = [
                ("Name", kind["name"]),
                ("Class", kind["class"]),
                ("GPU Instance Profile ID", "N/A"),
                ("Max Instances", kind["max"]),
                ("Max Instances Per VM", kind["per_vm"]),
                ("Multi vGPU Exclusive", "False"),
                ("vGPU Exclusive Type", "False"),
                ("vGPU Exclusive Size", "True"),
                ("Device ID", f"0x{int(kind['device'], 0):08x}"),
                ("Sub System ID", f"0x{int(kind['subsystem'], 0):08x}"),
                ("FB Memory", kind["fb_mib"] + " MiB"),
                ("Display Heads", kind["heads"]),
                ("Maximum X Resolution", kind["width"]),
                ("Maximum Y Resolution", kind["height"]),
                ("Frame Rate Limit", kind["frl"] + " FPS"),
                ("GRID License", kind["license"]),
            ]
            # Decimal in sysfs, hexadecimal here.
            lines += fields(state, 1, [("vGPU Type ID", f"0x{int(kind['id']):x}")])
            lines += fields(state, 2, rows)
        lines.append("")
    return lines


def fields(state: State, depth: int, rows: list[tuple[str, str | None]]) -> list[str]:
    """`Name   : value` with all colons in one column, which R580 moved to the right; a row without value is a heading."""
    column = 55 if state.branch >= 580 else 42
    lines = []
    for name, value in rows:
        text = "    " * depth + name
        lines.append(text if value is None else f"{text:<{column}}: {value}")
    return lines


def now() -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `nvidia-smi | head` ends without a word
    sys.exit(main(sys.argv[1:]))
