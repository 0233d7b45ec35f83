"""nvidia-smi, simulated: reads the lab driver's state and prints it in the real tool's formats.

    nvidia-smi [-i ID]              nvidia-smi vgpu [-i ID]
                                    nvidia-smi vgpu -u [-i ID]          each second, until stopped
    nvidia-smi -L                   nvidia-smi vgpu -q [-i ID]
    nvidia-smi -q [-i ID]           nvidia-smi vgpu -s|-c [-v] [-i ID]
    nvidia-smi -mig 0|1 [-i ID]     nvidia-smi vgpu -ss|-sc [-i ID]
    nvidia-smi --gpu-reset [-i ID]
    nvidia-smi mig -lgip|-lgipp|-lgi|-lci [-i ID]
    nvidia-smi mig -cgi PROFILE[:START],… [-C] [-i ID]
    nvidia-smi mig -dci [-ci IDS] [-gi IDS] [-i ID]
    nvidia-smi mig -dgi [-gi IDS] [-i ID]
    nvidia-smi vgpu set-scheduler-state -p 1|2|3 [-a 0|1] [-asf HZ] [-aavg FACTOR] [-ts NS] [-i ID]
    nvidia-smi vgpu -shm 0|1 [-i ID]

ID is an index, a PCI bus id or a GPU's UUID, or several with commas. The exit status is NVML's error number. The formats
are those of public captures of R535 to R595; fields for which the lab has no state are left out or say N/A. The wording of
set-scheduler-state and of -shm is the lab's own.
"""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from . import gpus, mig, mixed_size, scheduling, utilization, vgpus
from .state import INVALID_ARGUMENT, SmiError, choose, read_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .state import Row, State

_NAMES = {
    "--list-gpus": "-L",
    "--query": "-q",
    "--supported": "-s",
    "--creatable": "-c",
    "--verbose": "-v",
    "--schedulerstate": "-ss",
    "--schedulercaps": "-sc",
    "--utilization": "-u",
    "--help": "-h",
    "--id": "-i",
    **mig.LONG,
}
_EVERY_S = 1.0
_WITH_VALUE = ("-i", mixed_size.OPTION, *scheduling.OPTIONS, *mig.WITH_VALUE)
_NO_OPTION = "ERROR: Option {} is not recognized. Please run 'nvidia-smi -h'."
_NO_COMBINATION = "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."


def run() -> None:
    """The process: `nvidia-smi | head` ends silently, as does Ctrl-C."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))


def main(arguments: list[str]) -> int:
    """Parse, read, print. Returns the exit status."""
    try:
        request = parse(arguments)
        if request.view is show_help:
            say(__doc__ or "")
            return 0
        state = read_state()
        say("\n".join(request.view(state, choose(state, request.gpu))))
        while request.view is utilization.show_columns:
            time.sleep(_EVERY_S)
            state = read_state()
            say("\n".join(utilization.show_rows(state, choose(state, request.gpu))))
    except SmiError as error:
        say(error.text)
        return error.status & 0xFF
    return 0


def say(text: str) -> None:
    """Write to stdout in UTF-8, whatever the locale; a VM's name can contain invalid bytes."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape") + b"\n")
    sys.stdout.buffer.flush()


def show_help(_: State, __: list[Row]) -> list[str]:
    return [__doc__ or ""]


class Request(NamedTuple):
    view: Callable[[State, list[Row]], list[str]]
    gpu: str | None


_VIEWS: Mapping[str, Callable[[State, list[Row]], list[str]]] = {
    "": gpus.show_summary,
    "-L": gpus.show_list,
    "-q": gpus.show_query,
    "-h": show_help,
    "vgpu": vgpus.show_vgpus,
    "vgpu -q": vgpus.show_vgpu_query,
    "vgpu -s": partial(vgpus.show_types, creatable=False),
    "vgpu -s -v": partial(vgpus.show_type_blocks, creatable=False),
    "vgpu -c": partial(vgpus.show_types, creatable=True),
    "vgpu -c -v": partial(vgpus.show_type_blocks, creatable=True),
    "vgpu -u": utilization.show_columns,
    "vgpu -ss": scheduling.show_state,
    "vgpu -sc": scheduling.show_caps,
    "vgpu -h": show_help,
    "mig -h": show_help,
    "mig -lgip": mig.show_profiles,
    "mig -lgipp": mig.show_placements,
    "mig -lgi": mig.show_instances,
    "mig -lci": mig.show_computes,
    "-r": mig.reset,
}


def parse(arguments: list[str]) -> Request:
    """What the arguments request. An option that is not simulated is refused as the real tool refuses unknown ones."""
    rest = list(arguments)
    command = [rest.pop(0)] if rest[:1] in (["vgpu"], ["mig"]) else []
    if command and rest[:1] == [scheduling.COMMAND]:
        command.append(rest.pop(0))
    flags, values = read_options(rest)
    gpu = values.pop("-i", None)
    if scheduling.COMMAND in command and not flags:
        scheduling.check_wish(values)
        return Request(partial(scheduling.set_state, values), gpu)
    if command == ["vgpu"] and not flags and list(values) == [mixed_size.OPTION]:
        return Request(partial(mixed_size.set_mode, values[mixed_size.OPTION]), gpu)
    change = mig.change_of(command, flags, values)
    if change is not None:
        return Request(change, gpu)
    view = _VIEWS.get(" ".join(command + sorted(flags)))
    if view is None or values:
        raise SmiError(_NO_COMBINATION, INVALID_ARGUMENT)
    return Request(view, gpu)


def read_options(rest: list[str]) -> tuple[set[str], dict[str, str]]:
    """The switches and the options with a value (`-i 0`, `--id=0`), by their short names."""
    flags: set[str] = set()
    values: dict[str, str] = {}
    while rest:
        word, has_value, value = rest.pop(0).partition("=")
        option = _NAMES.get(word) or scheduling.LONG.get(word, word)
        if option in _WITH_VALUE:
            if not has_value and not rest:
                raise SmiError(f"Missing value for option {word}. Please run 'nvidia-smi -h'.", INVALID_ARGUMENT)
            values[option] = value if has_value else rest.pop(0)
        elif option in _NAMES.values() and not has_value:
            flags.add(option)
        else:
            raise SmiError(_NO_OPTION.format(word), INVALID_ARGUMENT)
    return flags, values
