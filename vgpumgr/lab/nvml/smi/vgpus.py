"""The parts of nvidia-smi's output that show vGPUs and their types."""

from __future__ import annotations

from .state import Row, State, bus_id
from .text import cut, fields, now
from .utilization import gpu_util, vgpu_util


def show_vgpus(state: State, gpus: list[Row]) -> list[str]:
    """The lines of the boxed table of vGPUs.

    The real tool lists only *active* vGPUs, those that a running VM holds. The simulator also lists vGPUs that no VM
    holds, as VM `N/A`: without a hypervisor's guests there would be little to see. `vgpu -q` and NVML list only the
    active ones.
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
        lines.append(
            f"| {gpu['index']:>3}  {cut(gpu['name'], 27):<27}| {bus_id(gpu):<29}|{gpu_util(gpu, 'sm'):>5}       |"
        )
        for vgpu in state.vgpus_of(gpu):
            name = cut(state.type_of(vgpu).get("name", "N/A"), 14)
            vm = cut(vgpu.get("vm_uuid", "N/A"), 7)
            vm_name = cut(vgpu.get("vm_name", "N/A"), 19)
            lines.append(
                f"|      {vgpu['instance']:<10}  {name:<14} | {vm:<7}  {vm_name:<19} |{vgpu_util(state, vgpu, 'sm'):>8}    |"
            )
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
    """The fields of one active vGPU. Those that only a guest's NVIDIA driver can report are N/A while none runs."""
    kind = state.type_of(vgpu)
    used = int(vgpu.get("fb_used", "0")) >> 20
    rows: list[tuple[str, str | None]] = [
        ("VM UUID", vgpu["vm_uuid"]),
        ("VM Name", vgpu.get("vm_name", "N/A")),
        ("vGPU Name", kind.get("name", "N/A")),
        ("vGPU Type", vgpu["type"]),
        ("vGPU UUID", vgpu["uuid"]),
        ("MDEV UUID", vgpu.get("mdev", "N/A")),
        ("Guest Driver Version", "N/A"),
        ("License Status", "N/A (Expiry: N/A)"),
        ("GPU Instance ID", vgpu.get("gpu_instance", "N/A")),
    ]
    if state.branch >= 550:
        rows.append(("Placement ID", vgpu.get("placement", "N/A")))
    rows += [
        ("Accounting Mode", "N/A"),
        ("ECC Mode", "N/A"),
        ("Accounting Buffer Size", "4000"),
        ("Frame Rate Limit", "N/A"),
        ("PCI", None),
        ("    Bus Id", "00000000:00:00.0"),
        ("FB Memory Usage", None),
        ("    Total", kind["fb_mib"] + " MiB"),
        ("    Used", f"{used} MiB"),
        ("    Free", f"{int(kind['fb_mib']) - used} MiB"),
        ("Utilization", None),
    ]
    engines = {"GPU" if state.branch >= 550 else "Gpu": "sm", "Memory": "mem", "Encoder": "enc", "Decoder": "dec"}
    rows += [("    " + name, vgpu_util(state, vgpu, key, " %")) for name, key in engines.items()]
    none = "N/A" if "gpu_instance" in vgpu else "0 %"
    rows += [("    " + name, none) for name in ("Jpeg", "Ofa") if state.branch >= 550]
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
                ("GPU Instance Profile ID", kind.get("profile", "N/A")),
                ("Max Instances", kind["max"]),
                ("Max Instances Per VM", kind["per_vm"]),
                *per_instance(state, kind),
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
            rows += placement_rows(state, gpu, kind, creatable=creatable)
            lines += fields(state, 1, [("vGPU Type ID", f"0x{int(kind['id']):x}")])
            lines += fields(state, 2, rows)
        lines.append("")
    return lines


def per_instance(state: State, kind: Row) -> list[tuple[str, str | None]]:
    """The line that says how many vGPUs of a MIG-backed type share a GPU instance. R575 added it."""
    return [("Max Instances Per GI", kind["per_instance"])] if "per_instance" in kind and state.branch >= 575 else []


def placement_rows(state: State, gpu: Row, kind: Row, *, creatable: bool) -> list[tuple[str, str | None]]:
    """The fields with a type's placement ids: the free ones if `creatable`, otherwise all that the GPU's mode has.

    Empty if the driver has no placement ids for the type.
    """
    places = state.places_of(kind)
    ids = places.get("free") if creatable else places.get("mixed" if gpu.get("hetero") == "1" else "equal")
    if ids is None:
        return []
    name = "Creatable Placement IDs" if creatable else "Supported Placement IDs"
    return [("Placement Size", places["size"]), (name, ids.replace(",", " ") or "None")]
