"""A running lab for tests. A host takes seconds to start, so that labs are lent, and wiped between those who use them.

@pytest.mark.lab
def test_something(lab_factory: LabFactory) -> None:
    with lab_factory.lend(ONE) as lab: ...          # from this worker's pool: leave it as you found it, or it is an error
    with lab_factory.lend(ONE, wiped=True) as lab:  # the same; whatever is left is wiped away and no error
    own = lab_factory(SPEC, own="its host keys change")  # for what breaks it for others, or needs another spec
    lab.run("list", "-o", "json")                   # the program, pointed at the lab
    lab.ssh("kvm01", "virsh", "list", "--all")      # on a host
    before = lab.revisions()
    lab.writes("kvm01", since=before["kvm01"])      # what its driver was asked to change since; equal revisions: nothing
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import lab_state, memory
from tests.controllers import Zygote
from vgpumgr.errors import LabError
from vgpumgr.lab import client, fleet, requirements
from vgpumgr.lab.builtin_specs import BUILTIN
from vgpumgr.lab.driver.boards import board as board_named
from vgpumgr.lab.layout import Layout
from vgpumgr.lab.machine import control

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vgpumgr.lab.sysfs.tree import WriteRecord

_COMMAND_S = 600.0  # for what hangs
_FEW = 8
# The contract's rows do things while its driver waits, so that it has the real time for it; all others take a tenth.
_REAL_TIME = str(Path(__file__).with_name("kernel") / "hardware.yml")
# The specs of the pool.
SMALL = str(Path(__file__).with_name("mdev-vf-small.yml"))
ONE = str(Path(__file__).with_name("mdev-vf-one.yml"))
FRAMEWORKS = str(Path(__file__).with_name("frameworks.yml"))
MIG = str(Path(__file__).with_name("mig-small.yml"))
POOL = (ONE, SMALL, FRAMEWORKS, MIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab that is up."""

    layout: Layout

    @property
    def dir(self) -> Path:
        return self.layout.folder

    @property
    def env(self) -> dict[str, str]:
        """The environment of a command that is to use this lab, and no setting of the person who runs the tests."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("VGPUMGR_", "ANSIBLE_"))}
        return {**inherited, **fleet.environment(self.layout)}

    def ssh(
        self, host: str, *argv: str, text: str | None = None, timeout: float = _COMMAND_S, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on a host as `lab ssh` does (words joined by blanks, a shell there)."""
        program, *rest = client.ssh_command(self.layout, fleet.read(self.layout).host(host), argv)
        return subprocess.run(
            [program, *options, *rest],
            input=text if text is not None else "",
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def must(self, host: str, *argv: str, text: str | None = None) -> str:
        """Run a command on a host that has to succeed; its output. By one ssh connection for all, which costs a tenth."""
        shared = {"ControlMaster": "auto", "ControlPersist": "60", "ControlPath": str(self.dir.parent / "ssh-%p")}
        options = tuple(word for name, value in shared.items() for word in ("-o", f"{name}={value}"))
        done = self.ssh(host, *argv, text=text, options=options)
        assert done.returncode == 0, f"{host}: {argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run(
        self,
        *arguments: str,
        text: str | None = None,
        timeout: float = _COMMAND_S,
        first: Callable[[Any], None] | None = None,
        given: object = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `vgpumgr ARGUMENTS` with the lab's environment, without a terminal: a process of its own (tests/zygote.py)."""
        one = zygote().start(*arguments, env={**self.env, **(env or {})}, text=text or "", first=first, given=given)
        code = one.wait(timeout)
        return subprocess.CompletedProcess(one.argv, code, one.out, one.err)

    def control(self, host: str, op: str, **fields: str) -> dict[str, Any]:
        """Ask a host's supervisor (vgpumgr.lab.machine.control lists the operations)."""
        return control.ask(self.layout.host(host), op, fields)

    def revisions(self) -> dict[str, int]:
        """How many writes the driver of each host was asked for so far, taken or refused."""
        return {host.name: self.control(host.name, "writes")["revision"] for host in fleet.read(self.layout).hosts}

    def writes(self, host: str, *, since: int = 0) -> list[WriteRecord]:
        """A host's writes from that revision on: to /sys, and what NVML was told to set; oldest first."""
        found: list[WriteRecord] = self.control(host, "writes", since=str(since))["writes"]
        return found

    def down(self) -> None:
        fleet.down(self.layout)


@dataclass(slots=True, kw_only=True)
class LabFactory:
    """Brings labs up below one short temporary folder and remembers them. `first`: how each host of the pool was at first."""

    folder: Path
    count: int = 0
    shared: dict[str, Lab] = field(default_factory=dict)
    all: list[Lab] = field(default_factory=list)
    first: dict[str, dict[str, lab_state.HostState]] = field(default_factory=dict)

    def __call__(self, spec: str = "mdev-vf", *, shared: bool = True, own: str | None = None) -> Lab:
        """The pool's lab of that spec, or one of the caller's own: then it says why. `spec`: a name, a file, or the text of one."""
        assert own != "", "why does this need a lab of its own?"
        if own is not None or not shared:
            return self._up(spec)
        if spec not in self.shared:
            lab = self.shared[spec] = self._up(spec)
            self.first[spec] = {host.name: lab_state.look(lab, host.name) for host in fleet.read(lab.layout).hosts}
        return self.shared[spec]

    @contextlib.contextmanager
    def lend(self, spec: str, *, wiped: bool = False, own: str = "") -> Iterator[Lab]:
        """The pool's lab, for a module or a test. What it leaves is an error, unless it is `wiped`; then it is as at first.

        `own`: why a module lends its tests a lab of another spec, which ends with the module.
        """
        assert spec in POOL or own, "why is this no lab of the pool?"
        lab = self(spec)
        yield lab
        left = self.wipe(spec)
        assert wiped or left == []

    def wipe(self, spec: str) -> list[str]:
        """What was left there, and is gone now. Where wiping does not do, the lab goes, and the next one gets a new one."""
        lab, first = self.shared[spec], self.first[spec]
        left: list[str] = []
        try:
            for host, state in first.items():
                left += [f"{host}: {what}" for what in lab_state.left(state, lab_state.look(lab, host))]
                now = lab_state.wipe(lab, host, state)
                stays = lab_state.left(state, now)
                assert stays == [], f"{host} cannot be wiped: {stays}"
                first[host] = now  # libvirt may have written a definition in another way
        except BaseException:
            del self.shared[spec], self.first[spec]
            self.all.remove(lab)
            lab.down()
            raise
        for file in lab.dir.iterdir():
            if file.name.startswith(("store.", "samples.")):
                file.unlink()
        return left

    def _up(self, spec: str) -> Lab:
        self.count += 1
        if "\n" in spec:
            file = self.folder / f"{self.count}.yml"
            file.write_text(spec, encoding="utf-8")
            spec = str(file)
        lab = Lab(layout=Layout(folder=self.folder / str(self.count)))
        fleet.up(lab.layout, spec, pace=1.0 if spec == _REAL_TIME else 0.1)
        self.all.append(lab)
        return lab

    def end_own(self) -> None:
        """Take down the labs that are not the pool's."""
        for spec in self.shared.keys() - {*POOL}:
            del self.shared[spec], self.first[spec]
        for lab in self.all:
            if lab not in self.shared.values():
                lab.down()
        self.all = list(self.shared.values())


# The factory of this session, once a test has needed one.
FACTORY = pytest.StashKey[LabFactory]()


def fewer_vfs(spec: str, folder: Path) -> str:
    """A file in that folder: the built-in spec with 8 VFs on each board that has any. A host takes as long to read as it has VFs."""
    made: dict[str, Any] = json.loads(json.dumps(BUILTIN[spec]))
    for host in made["hosts"].values():
        boards = [board if isinstance(board, dict) else {"board": board} for board in host["boards"]]
        host["boards"] = [
            {**board, "vfs": _FEW} if board_named(board["board"], spec).vfs else board for board in boards
        ]
    file = folder / f"{spec}.yml"
    file.write_text(json.dumps(made), encoding="utf-8")
    return str(file)


@functools.cache
def zygote() -> Zygote:
    """What starts the program for all labs of this process, on first use."""
    found = Zygote()
    atexit.register(found.close)
    return found


@pytest.fixture(scope="session")
def lab_factory(request: pytest.FixtureRequest) -> Iterator[LabFactory]:
    """Labs on demand; all are down at the end. Skips where the machine cannot run one, but fails there with VGPUMGR_CI=1."""
    try:
        requirements.check()
    except LabError as error:
        reason = "; ".join((error.message, *error.details))
        if os.environ.get("VGPUMGR_CI") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="lab-", dir=memory.folder()))
    factory = request.config.stash[FACTORY] = LabFactory(folder=folder)
    try:
        yield factory
    finally:
        for lab in factory.all:
            lab.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mdev_vf_lab(lab_factory: LabFactory) -> Lab:
    """A shared lab as `mdev-vf`, with fewer VFs: kvm01 with two A40, kvm02 with an A100."""
    return lab_factory(SMALL)
