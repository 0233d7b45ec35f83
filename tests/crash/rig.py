"""The fleet that is broken here, and the one function that says whether anything of it is half made."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests import lab_state
from tests.controllers import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.controllers import Controller, Zygote
    from tests.lab_fixtures import Lab

FLEET = Path(__file__).with_name("fleet.yml")
HOSTS = {"p": "pf01", "a": "vf01", "b": "vf02", "c": "vf03", "d": "vd01"}  # by the first letter of their VMs
HALTED = (1, 4, 6)  # failed, not reached, busy: how a controller may end to which something was done
_PROBE = Path(__file__).with_name("probe.py").read_text(encoding="utf-8")
_QUIET_S = 120.0  # at most, for what a dead controller started on a host to end


def host_of(vm: str) -> str:
    return HOSTS[vm[0]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """A lab and what starts controllers in it."""

    lab: Lab
    zygote: Zygote
    env: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # hosts that may not be clean
    first: dict[str, lab_state.HostState] = field(default_factory=dict)

    def start(
        self, verb: str, vm: str, *options: str, interference: Mapping[str, Any] | None = None, **env: str
    ) -> Controller:
        """Begin `vgpumgr VERB VM --on ITS-HOST OPTIONS`."""
        self.used.add(host_of(vm))
        argv = (verb, vm, "--on", host_of(vm), *options)
        return self.zygote.start(*argv, env={**self.env, **env}, interference=interference)

    def attach(self, vm: str, *options: str, profile: str = "2Q", **named: Any) -> Controller:
        return self.start("attach", vm, "--profile", profile, *options, **named)

    def detach(self, vm: str, *options: str, **named: Any) -> Controller:
        return self.start("detach", vm, "--yes", *options, **named)

    def keep(self) -> None:
        """Remember how every host is at first, for `wipe`."""
        self.first.update({host: lab_state.look(self.lab, host) for host in HOSTS.values()})

    def wipe(self, host: str) -> None:
        """Take everything away there, by the host's own means."""
        now = lab_state.wipe(self.lab, host, self.first[host])
        assert lab_state.left(self.first[host], now) == []
        self.first[host] = now

    def look(self, host: str) -> dict[str, Any]:
        """What the probe sees there now."""
        seen = json.loads(self.lab.must(host, "python3", "-I", "-", text=_PROBE))
        assert isinstance(seen, dict)
        return seen

    def look_when_quiet(self, host: str, seconds: float = _QUIET_S) -> dict[str, Any]:
        """What is there once no process of a controller's session is left, and the lock is free; both must come about."""
        until = time.monotonic() + seconds
        while True:
            seen = self.look(host)
            if (not seen["processes"] and seen["lock_is_free"]) or time.monotonic() > until:
                return seen
            time.sleep(0.1)

    def wait_for(self, host: str, what: str) -> None:
        """Until a process of that name is on the host."""
        wait_until(lambda: any(what in line for line in self.look(host)["processes"]), f"{what} on {host}")


def check(
    rig: Rig, host: str, given: Mapping[str, str | None], *, foreign: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Everything agrees on the host, and nothing else is there.

    `given` is VM → the type of its one vGPU (the end of its name: "4Q"), or None for a VM without any. Each has exactly one
    claim (bound), hostdev, ledger entry (made) and vGPU, all naming the same device; other VMs have none of them; there is
    no vGPU beside, but for the foreign ones (device → type id), as they were. No controller of this host runs, and no host program, helper, ssh session or lock of one is left; no temporary file.
    """
    assert [str(one) for one in rig.zygote.running if host in one.argv] == []
    seen = rig.look_when_quiet(host)
    assert seen["processes"] == []
    assert seen["lock_is_free"]
    want = {vm: kind for vm, kind in given.items() if kind is not None}
    assert {vm: _kinds(has["claims"], "type") for vm, has in seen["vms"].items() if has["claims"]} == {
        vm: [kind] for vm, kind in want.items()
    }
    assert {vm: len(has["hostdevs"]) for vm, has in seen["vms"].items() if has["hostdevs"]} == dict.fromkeys(want, 1)
    entries = {entry["vm_name"]: entry for entry in seen["ledger"]}
    assert sorted(entry["vm_name"] for entry in seen["ledger"]) == sorted(want)
    for vm in want:
        claim, hostdev, entry = seen["vms"][vm]["claims"][0], seen["vms"][vm]["hostdevs"][0], entries[vm]
        device = entry["uuid"] or entry["parent"]
        assert (claim["state"], entry["state"]) == ("bound", "made"), vm
        assert (hostdev["alias"], hostdev["device"]) == (f"ua-{entry['slot']}", device), vm
        assert (claim.get("uuid") or claim["parent"], claim["slot"]) == (device, entry["slot"]), vm
        assert (claim["type"], int(claim["type_id"])) == (entry["type_name"], entry["type_id"]), vm
        assert seen["hardware"].get(device) == entry["type_id"], vm
    assert {device: seen["hardware"].get(device) for device in foreign} == dict(foreign)
    assert len(seen["hardware"]) == len(want) + len(foreign)
    assert rig.zygote.litter(host) == []


def _kinds(items: list[dict[str, Any]], key: str) -> list[str]:
    return [item[key].rpartition("-")[2] for item in items]


def must(one: Controller, *codes: int) -> Controller:
    """It ended so (0 where nothing is said), and not with a traceback."""
    status = one.wait()
    assert status in (codes or (0,)), str(one)
    assert "Traceback" not in one.err, str(one)
    if status > 0 and status < 128:
        assert "error: " in one.err, str(one)
    return one


@contextlib.contextmanager
def held(rig: Rig, begin: str, vm: str, *options: str, at: str, file: Path, **named: Any) -> Iterator[Controller]:
    """A controller that stands at that point while the block runs, and goes on after it."""
    start = rig.attach if begin == "attach" else rig.detach
    one = start(vm, *options, interference={"at": at, "do": "touch", "file": str(file)}, **named)
    wait_until(file.exists, f"{vm} at {at}")
    try:
        yield one
    finally:
        file.unlink()
