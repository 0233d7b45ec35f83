"""MIG mode, GPU and compute instances. The formats are those of public captures of A100, H100 and RTX PRO 6000.

Without -i a command is for every GPU in MIG mode. An empty list ends the program with *Not Found*, as in the real one;
the wording of a mode that waits for a reset is the lab's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .request import request
from .state import (
    ERRORS,
    IN_USE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    OTHER_ERROR,
    RESET_REQUIRED,
    SmiError,
    bus_id,
    read_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .state import Row, State

LONG = {
    "--gpu-reset": "-r",
    "--multi-instance-gpu": "-mig",
    "--list-gpu-instance-profiles": "-lgip",
    "--list-gpu-instance-possible-placements": "-lgipp",
    "--list-gpu-instances": "-lgi",
    "--list-compute-instances": "-lci",
    "--create-gpu-instance": "-cgi",
    "--default-compute-instance": "-C",
    "--destroy-gpu-instance": "-dgi",
    "--destroy-compute-instance": "-dci",
    "--gpu-instance-id": "-gi",
    "--compute-instance-id": "-ci",
}
WITH_VALUE = ("-mig", "-cgi", "-gi", "-ci")
_FIRST_PROFILES_WITHOUT_MIG = 580
_IN_USE = (  # NVSentinel, issue 1690
    "\n1 device is currently being used by one or more other processes (e.g. Fabric Manager, CUDA application, graphics application "
    "such as an X server, or a monitoring application such as another instance of nvidia-smi). Please first kill all processes "
    "using this device and all compute applications running in the system."
)
_NONE = "No MIG-enabled devices found."
_COMPUTE_PROFILES = {"1": 0, "2": 1, "3": 2, "4": 3, "7": 4}  # slices → id


def change_of(
    command: list[str], flags: set[str], values: Mapping[str, str]
) -> Callable[[State, list[Row]], list[str]] | None:
    """The function that makes the change that the command line requests; None if it requests none."""
    if not command and not flags and list(values) == ["-mig"]:
        return partial(set_mode, values["-mig"])
    if command != ["mig"]:
        return None
    if list(values) == ["-cgi"] and flags <= {"-C"}:
        return partial(create, values["-cgi"], with_compute=bool(flags))
    if flags == {"-dgi"} and set(values) <= {"-gi"}:
        return partial(destroy, values.get("-gi"))
    if flags == {"-dci"} and set(values) <= {"-gi", "-ci"}:
        return partial(destroy_computes, values.get("-gi"), values.get("-ci"))
    return None


# the mode


def set_mode(value: str, state: State, gpus: list[Row]) -> list[str]:
    if value not in ("0", "1"):
        raise SmiError(f"Invalid value for option -mig: {value}", INVALID_ARGUMENT)
    word, of_pending = ("enable", "Enabled") if value == "1" else ("disable", "Disabled")
    lines: list[str] = []
    for gpu in gpus:
        code = state.failure("nvmlDeviceSetMigMode", gpu) or request(f"mig pci={gpu['pci']} on={value}")
        if code:
            why = f"Unable to {word} MIG Mode for GPU {bus_id(gpu)}: {ERRORS.get(code, 'Unknown Error')}"
            raise SmiError("\n".join([*lines, why, "Terminating early due to previous errors."]), code)
        now = next(row for row in read_state().gpus if row["index"] == gpu["index"])
        if now["mig"] == now["mig_pending"]:
            lines.append(f"{of_pending} MIG Mode for GPU {bus_id(gpu)}")
        else:
            why = ERRORS[RESET_REQUIRED]
            lines += [
                f"Warning: MIG mode is in pending {word} state for GPU {bus_id(gpu)}:{why}",
                f"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {bus_id(gpu)}",
            ]
    return [*lines, "All done."]


def reset(state: State, gpus: list[Row]) -> list[str]:
    """Reset each GPU. NVML has no such function: the name nvmlGpuReset is only for the fault that makes it fail."""
    lines: list[str] = []
    for gpu in gpus:
        code = state.failure("nvmlGpuReset", gpu) or request(f"reset pci={gpu['pci']}")
        if code:
            why = [
                "The following GPUs could not be reset:",
                f"  GPU {bus_id(gpu)}: {ERRORS.get(code, 'Unknown Error')}",
            ]
            raise SmiError("\n".join([*lines, *why, *([_IN_USE] if code == IN_USE else [])]), OTHER_ERROR)
        lines.append(f"GPU {bus_id(gpu)} was successfully reset.")
    return [*lines, "All done."]


# lists


def show_profiles(state: State, gpus: list[Row]) -> list[str]:
    """The GPU instance profiles of the GPUs in MIG mode. R580 lists them with MIG off, too."""
    candidates = [gpu for gpu in gpus if gpu.get("mig") == "1" or state.branch >= _FIRST_PROFILES_WITHOUT_MIG]
    rows = [(gpu, profile) for gpu in candidates for profile in state.profiles_of(gpu)]
    if not rows:
        raise SmiError("No MIG-supported devices found." if candidates else _NONE, NOT_FOUND)
    lines = _head(
        "GPU instance profiles:",
        "GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  ",
        "                               Free/Total   GiB              CE    JPEG  OFA  ",
    )
    for gpu, profile in rows:
        free = profile["left"] if gpu["mig"] == "1" else profile["max"]
        memory = f"{int(profile['memory_mib']) / 1024:.2f}"
        first = (
            f"| {gpu['index']:>3}  {'MIG ' + profile['name']:<19}{profile['id']:>3}   {free:>3}/{profile['max']:<3}"
            f"     {memory:>6}      No    {profile['sms']:>3}     0     0   |"
        )
        second = f"|{profile['slices']:>64}     0     0   |"
        lines += [first, second, _rule(len(first))]
    return lines


def show_placements(state: State, gpus: list[Row]) -> list[str]:
    lines = []
    for gpu in gpus:
        for profile in state.profiles_of(gpu):
            word = "Placements:" if "," in profile["starts"] else "Placement :"
            lines.append(
                f"GPU {gpu['index']:>2} Profile ID {profile['id']:>2} {word} {{{profile['starts']}}}:{profile['size']}"
            )
    if not lines:
        raise SmiError("No MIG-supported devices found.", NOT_FOUND)
    return lines


def show_instances(state: State, gpus: list[Row]) -> list[str]:
    rows = [(gpu, instance) for gpu in _in_mode(gpus) for instance in _ordered(state, gpu)]
    if not rows:
        raise _not_found("GPU")
    lines = _head(
        "GPU instances:",
        "GPU   Name               Profile  Instance   Placement  ",
        "                           ID       ID       Start:Size ",
    )
    for gpu, instance in rows:
        place = f"{instance['start']}:{instance['size']}"
        line = (
            f"| {gpu['index']:>3}  {'MIG ' + _name(state, instance):<19}  {instance['profile']:>3}"
            f"       {instance['id']:>2}        {place:>5}     |"
        )
        lines += [line, _rule(len(line))]
    return lines


def show_computes(state: State, gpus: list[Row]) -> list[str]:
    rows = [
        (gpu, instance, compute)
        for gpu in _in_mode(gpus)
        for instance in _ordered(state, gpu)
        for compute in state.computes_of(instance)
    ]
    if not rows:
        raise _not_found("compute")
    lines = _head(
        "Compute instances:",
        "GPU     GPU       Name             Profile   Instance   Placement  ",
        "      Instance                       ID        ID       Start:Size ",
        "        ID                                                         ",
    )
    for gpu, instance, compute in rows:
        place = f"{compute['start']}:{compute['slices']}"
        name = "MIG " + _compute_name(state, instance, compute)
        line = (
            f"| {gpu['index']:>3}     {instance['id']:>2}       {name:<19}{compute['profile']:>3}"
            f"        {compute['id']:>2}        {place:>5}     |"
        )
        lines += [line, _rule(len(line))]
    return lines


# changes


def create(wanted: str, state: State, gpus: list[Row], *, with_compute: bool) -> list[str]:
    """Create the instances that `wanted` lists: ids or names of profiles, each with an optional start.

    Instances made before a refusal stay.
    """
    lines: list[str] = []
    for gpu in _in_mode(gpus):
        for word in wanted.split(","):
            name, _, start = word.partition(":")
            profile = _asked_profile(state, gpu, name)
            line = f"create-instance pci={gpu['pci']} profile={profile['id']}" + (f" start={start}" if start else "")
            code = state.failure("nvmlDeviceCreateGpuInstance", gpu) or request(line)
            if code:
                why = ERRORS.get(code, "Unknown Error")
                on = f"Unable to create a GPU instance on GPU {gpu['index']:>2} using profile {name}: {why}"
                raise SmiError("\n".join([*lines, on, f"Failed to create GPU instances: {why}"]), code)
            instance = max(read_state().instances_of(gpu), key=lambda row: int(row["serial"]))
            using = f"using profile MIG {profile['name']}"
            on = f"on GPU {gpu['index']:>2}"
            lines.append(
                f"Successfully created GPU instance ID {instance['id']:>2} {on} {using} (ID {profile['id']:>2})"
            )
            if with_compute:
                number = _COMPUTE_PROFILES[profile["slices"]]
                code = request(f"create-compute pci={gpu['pci']} instance={instance['serial']} profile={number}")
                if code:
                    why = ERRORS.get(code, "Unknown Error")
                    raise SmiError("\n".join([*lines, f"Failed to create compute instances: {why}"]), code)
                inside = f"{on} GPU instance ID {instance['id']:>2}"
                lines.append(f"Successfully created compute instance ID  0 {inside} {using} (ID {number:>2})")
    return lines


def destroy(ids: str | None, state: State, gpus: list[Row]) -> list[str]:
    lines: list[str] = []
    for gpu in _in_mode(gpus):
        for instance in _named(_ordered(state, gpu), ids):
            code = state.failure("nvmlGpuInstanceDestroy", gpu) or request(
                f"destroy-instance pci={gpu['pci']} serial={instance['serial']}"
            )
            what = f"GPU instance ID {instance['id']:>2} from GPU {gpu['index']:>2}"
            if code:
                raise _undestroyed(lines, what, "GPU", code)
            lines.append(f"Successfully destroyed {what}")
    if not lines:
        raise _not_found("GPU")
    return lines


def destroy_computes(instance_ids: str | None, ids: str | None, state: State, gpus: list[Row]) -> list[str]:
    lines: list[str] = []
    for gpu in _in_mode(gpus):
        for instance in _named(_ordered(state, gpu), instance_ids):
            for compute in _named(state.computes_of(instance), ids):
                code = state.failure("nvmlComputeInstanceDestroy", gpu) or request(
                    f"destroy-compute pci={gpu['pci']} serial={compute['serial']}"
                )
                what = f"compute instance ID {compute['id']:>2} from GPU {gpu['index']:>2}"
                what += f" GPU instance ID {instance['id']:>2}"
                if code:
                    raise _undestroyed(lines, what, "compute", code)
                lines.append(f"Successfully destroyed {what}")
    if not lines:
        raise _not_found("compute")
    return lines


def _in_mode(gpus: list[Row]) -> list[Row]:
    mig_gpus = [gpu for gpu in gpus if gpu.get("mig") == "1"]
    if not mig_gpus:
        raise SmiError(_NONE, NOT_SUPPORTED)
    return mig_gpus


def _ordered(state: State, gpu: Row) -> list[Row]:
    """The GPU's instances, by profile as in the real tool's lists, then by id."""
    order = [profile["id"] for profile in state.profiles_of(gpu)]
    return sorted(state.instances_of(gpu), key=lambda row: (order.index(row["profile"]), int(row["id"])))


def _name(state: State, instance: Row) -> str:
    same = (row for row in state.profiles if (row["gpu"], row["id"]) == (instance["gpu"], instance["profile"]))
    return next(same)["name"]


def _compute_name(state: State, instance: Row, compute: Row) -> str:
    part = "" if compute["slices"] == instance["slices"] else f"{compute['slices']}c."
    return part + _name(state, instance)


def _asked_profile(state: State, gpu: Row, name: str) -> Row:
    for profile in state.profiles_of(gpu):
        if name in (profile["id"], profile["name"]):
            return profile
    raise SmiError(f"Invalid GPU instance profile: {name}", INVALID_ARGUMENT)


def _named(rows: list[Row], ids: str | None) -> list[Row]:
    return rows if ids is None else [row for row in rows if row["id"] in ids.split(",")]


def _not_found(kind: str) -> SmiError:
    return SmiError(f"No {kind} instances found: {ERRORS[NOT_FOUND]}", NOT_FOUND)


def _undestroyed(lines: list[str], what: str, kind: str, code: int) -> SmiError:
    why = ERRORS.get(code, "Unknown Error")
    return SmiError(
        "\n".join([*lines, f"Unable to destroy {what}: {why}", f"Failed to destroy {kind} instances: {why}"]), code
    )


def _head(title: str, *columns: str) -> list[str]:
    width = len(columns[0]) + 3
    inner = [f"| {text}".ljust(width - 1) + "|" for text in (title, *columns)]
    return [_rule(width), *inner, "|" + "=" * (width - 2) + "|"]


def _rule(width: int) -> str:
    return "+" + "-" * (width - 2) + "+"
