"""Views of the physical GPUs."""

from __future__ import annotations

from .state import Row, State, address_of, bus_id
from .text import cut, fields, now, switch
from .utilization import gpu_util


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
            f"| N/A   N/A   N/A            N/A /  N/A   | {used:>22} |{gpu_util(gpu, 'sm'):>8}      Default |",
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
    pairs = [(gpu, vgpu) for gpu in gpus for vgpu in state.vgpus_of(gpu) if "vm_uuid" in vgpu]
    for gpu, vgpu in pairs:
        memory = state.type_of(vgpu)["fb_mib"] + "MiB"
        row = f" {gpu['index']:>4}   {vgpu.get('gpu_instance', 'N/A'):>3}  N/A {'N/A':>9}    M+C+G   vgpu"
        lines.append(f"|{row:<77}{memory:>11} |")
    if not pairs:
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
            ("    Pending", switch(gpu.get("mig_pending"))),
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
            ("    GPU" if state.branch >= 580 else "    Gpu", gpu_util(gpu, "sm", " %")),
            ("    Memory", gpu_util(gpu, "mem", " %")),
        ]
        lines += ["GPU " + bus_id(gpu), *fields(state, 1, rows), ""]
    return lines
