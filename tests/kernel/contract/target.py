"""A host that rows are played on: a lab host, or a VM with a real kernel. One ssh connection each, for the whole run."""

from __future__ import annotations

import itertools
import json
import queue
import shlex
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tests.kernel.contract.places import A40, H100, L40S, NVML, PCI, A, B
from tests.kernel.contract.row import Observed, Operation
from vgpumgr.errors import LabError
from vgpumgr.lab import client, fleet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kernel.contract.row import Parameter
    from tests.kernel.vm import Vm
    from tests.lab_fixtures import Lab

_RUNNER = Path(__file__).with_name("runner.py")
_ANSWER_S = 600.0
_PARAMETERS = "/sys/module/nvidia/parameters"
_CURRENT_TYPES = [f"{PCI}/{vf}/nvidia/current_vgpu_type" for card in (L40S, H100) for vf in card.vfs]
_EQUAL_SIZE = [f"mixed pci={card.pci} on=0\n" for card in (A40, L40S)]
_LAB_HOST = "kvm01"
_BY_VMS = ("hold", "let_go", "plugin")
_LONG = "slow-plugin:600"
# Who holds what in the lab: a VM's definition names its vGPU, so each device that a row holds has its VM.
_LAB_VMS = {A: "vm01", B: "vm02", L40S.vfs[0]: "vm03"}


class Target(Protocol):
    """A host of the contract. `name` is what reports call it."""

    name: str

    def do(self, operations: Sequence[Operation]) -> list[Observed]:
        """Carry them out there, one after the other, whatever comes of each."""

    def begin(self, parameters: Sequence[Parameter]) -> None:
        """Have the driver behave so until end_row()."""

    def end_row(self) -> None:
        """No vGPU, no holder, no waiting write is left, and the driver is as it was. AssertionError where that fails."""

    def close(self) -> None:
        """End the connection."""


class Connection:
    """runner.py on a host, spoken to through one ssh."""

    def __init__(self, ssh: Sequence[str], *, moment_s: float) -> None:
        """`ssh` is the command line up to the remote command, `moment_s` how long a write is given before it waits."""
        self._moment_s = moment_s
        source = _RUNNER.read_bytes()
        # The program comes first, so many bytes of it; what follows on the same stdin are requests.
        loader = f"import sys;exec(sys.stdin.read({len(source.decode())}))"
        self._process = subprocess.Popen(
            [*ssh, f"exec python3 -u -c {shlex.quote(loader)}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._lines = self._process.stdin, self._process.stdout
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._send(source)

    def ask(self, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """An answer to each. AssertionError where the host says nothing."""
        self._send(json.dumps(requests).encode() + b"\n")
        try:
            line = self._answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise AssertionError(f"no answer within {_ANSWER_S:.0f} s to {requests}") from None
        assert line, f"the runner on the host ended ({self._process.wait()}) at {requests}"
        answers: list[dict[str, Any]] = json.loads(line)
        return answers

    def do(self, operations: Sequence[Operation]) -> list[Observed]:
        return [_observed(answer) for answer in self.ask([self._request(each) for each in operations])]

    def clean(self, parameters: dict[str, str]) -> None:
        """The state between two rows."""
        clean = {
            "do": "clean",
            "parameters": parameters,
            "current_types": _CURRENT_TYPES,
            "nvml": NVML,
            "equal_size": _EQUAL_SIZE,
            "mig": H100.pci,
        }
        ended, cleaned = self.ask([{"do": "end_row"}, clean])
        assert ended["value"] == [], f"these did not come back: {ended}"
        assert cleaned.get("value") == [], f"the host could not be cleaned: {cleaned}"

    def close(self) -> None:
        self._requests.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()
        self._lines.close()

    def _send(self, data: bytes) -> None:
        self._requests.write(data)
        self._requests.flush()

    def _listen(self) -> None:
        for line in self._lines:
            self._answers.put(line)
        self._answers.put(b"")

    def _request(self, operation: Operation) -> dict[str, Any]:
        moment = {"within": self._moment_s} if operation.do == "start" else {}
        return {"do": operation.do, **operation.keys, **moment}


class LabTarget:
    """A lab host. A VM holds a vGPU there by the lab's own `hold`, because the kernel below has no VFIO."""

    name = "lab"

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._held: list[str] = []
        self._faulty = False
        for device, vm in _LAB_VMS.items():
            lab.must(_LAB_HOST, f"virsh attach-device --config {vm} /dev/stdin", text=_hostdev(device))
        ssh = client.ssh_command(lab.layout, fleet.read(lab.layout).host(_LAB_HOST))
        self._connection = Connection([*ssh, "--"], moment_s=0.2)

    def do(self, operations: Sequence[Operation]) -> list[Observed]:
        seen: list[Observed] = []
        for by_lab, group in itertools.groupby(operations, lambda each: each.do in _BY_VMS):
            some = list(group)
            seen += [self._do(each) for each in some] if by_lab else self._connection.do(some)
        return seen

    def _do(self, operation: Operation) -> Observed:
        """What VMs do."""
        device = str(operation.keys["device"])
        if operation.do == "let_go":
            self._let_go(device)
        elif operation.do == "hold":
            try:
                self._lab.control(_LAB_HOST, "hold", vm=_LAB_VMS[device])
            except LabError as error:
                return Observed(errno=str(error))
            self._held.append(device)
        elif operation.keys["there"]:
            self._lab.control(_LAB_HOST, "fault", name=_LONG)
            self._faulty = True
            self._lab.control(_LAB_HOST, "hold", vm=_LAB_VMS[device])
            self._lab.control(_LAB_HOST, "release", vm=_LAB_VMS[device])
        else:
            self._lab.control(_LAB_HOST, "clear")
        return Observed()

    def begin(self, parameters: Sequence[Parameter]) -> None:
        for parameter in parameters:
            assert parameter.lab_fault, f"the lab has no fault for {parameter}"
            self._lab.control(_LAB_HOST, "fault", name=parameter.lab_fault)
            self._faulty = True

    def end_row(self) -> None:
        for device in tuple(self._held):
            self._let_go(device)
        if self._faulty:
            self._lab.control(_LAB_HOST, "clear")
            self._faulty = False
        self._connection.clean({})
        if self._lab.control(_LAB_HOST, "status")["lost"]:
            self._lab.control(_LAB_HOST, "reload")

    def close(self) -> None:
        self._connection.close()

    def _let_go(self, device: str) -> None:
        self._lab.control(_LAB_HOST, "release", vm=_LAB_VMS[device])
        self._held.remove(device)


class KernelTarget:
    """A VM with a real kernel and the test driver."""

    def __init__(self, vm: Vm) -> None:
        self.name = vm.name
        self._connection = Connection(vm.ssh_command(), moment_s=1.0)
        self._defaults: dict[str, str] = {}

    def do(self, operations: Sequence[Operation]) -> list[Observed]:
        return self._connection.do(operations)

    def begin(self, parameters: Sequence[Parameter]) -> None:
        for parameter in parameters:
            path = f"{_PARAMETERS}/{parameter.name}"
            before, put = self._connection.do(
                [Operation("read", {"path": path}), Operation("write", {"path": path, "text": parameter.value})]
            )
            assert isinstance(before.value, str), f"no parameter {parameter.name}: {before}"
            assert put.errno is None, f"{parameter}: {put.errno}"
            self._defaults[parameter.name] = before.value.strip()

    def end_row(self) -> None:
        defaults, self._defaults = self._defaults, {}
        self._connection.clean(defaults)

    def close(self) -> None:
        self._connection.close()


def _observed(answer: dict[str, Any]) -> Observed:
    value = answer.get("value")
    return Observed(
        errno=answer.get("errno"),
        value=tuple(value) if isinstance(value, list) else value,
        waits=answer.get("waits", False),
        seconds=answer.get("seconds", 0.0),
    )


def _hostdev(device: str) -> str:
    """What names the vGPU in a VM's definition."""
    if "-" in device:
        kind, address = "type='mdev' model='vfio-pci'", f"uuid='{device}'"
    else:
        domain, bus, rest = device.split(":")
        slot, function = rest.split(".")
        kind = "type='pci'"
        address = f"domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x{function}'"
    return f"<hostdev mode='subsystem' {kind} managed='no'><source><address {address}/></source></hostdev>"
