"""The session with a host program, against one that says what the test wants."""

from __future__ import annotations

import json
import queue
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.host.fakehost import VENDOR, make_scheduler_step, make_step, wait_until
from vgpumgr import errors
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.host.protocol.ledger import LEDGER_PATH
from vgpumgr.host.protocol.session import MAGIC, PROTOCOL
from vgpumgr.link import deadlines
from vgpumgr.link.deadlines import Deadline
from vgpumgr.link.program.session import Program
from vgpumgr.names import HostName
from vgpumgr.timing import Deadlines, Timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.protocol.gpu import SchedulerFact
    from vgpumgr.host.protocol.steps import SchedulerStep, Step

    Answer = Callable[[dict[str, Any]], bytes | None]

HELLO = {"protocol": PROTOCOL, "pid": 7, "euid": 0, "python": "3.9.1", "boot": "b"}
GREETING = MAGIC.encode() + json.dumps(HELLO).encode() + b"\n"
SNAPSHOT: dict[str, Any] = {
    "libvirt": None,
    "protocol": 1,
    "boot": "b",
    "machine": None,
    "hostname": "kvm01",
    "versions": {},
    "gpus": [],
    "handles": [],
    "qemus": [],
    "active": [],
    "silent": {},
    "ledger": [],
    "freed": [],
    "cordons": [],
    "reservations": [],
    "instances": [],
    "ledger_file": True,
    "blocked_writes": [],
    "modprobe": [],
    "module": None,
    "vfio": True,
    "fabric": {"switches": 0, "manager": "absent", "mode": None},
    "unknown": [],
}
LOCKED = {**SNAPSHOT, "unwritable": None}
END = b""
KVM01 = Endpoint(
    host=HostName("kvm01"), address="kvm01", port=22, user="root", key_file=None, known_hosts="/known_hosts"
)
STEP = cast("Step", make_step(VENDOR))
SET = cast("SchedulerStep", make_scheduler_step())

SCHEDULER: SchedulerFact = {
    "api": 1,
    "caps": {
        "policies": ["best-effort", "fixed-share"],
        "arr": True,
        "min_time_slice_ns": 1_000_000,
        "max_time_slice_ns": 30_000_000,
        "min_frequency_hz": 63,
        "max_frequency_hz": 960,
        "min_averaging_factor": 1,
        "max_averaging_factor": 60,
    },
    "engines": [
        {
            "engine": "graphics",
            "policy": "fixed-share",
            "arr": None,
            "averaging_factor": None,
            "time_slice_ns": None,
        }
    ],
}


class Script:
    """A stream whose other end greets, and answers each request as `answer` says; None is silence."""

    def __init__(self, answer: Answer | None = None, greeting: bytes = GREETING, status: int | None = 0) -> None:
        self.seen: list[dict[str, Any]] = []
        self.said_to_stderr = ""
        self.greeting = greeting
        self._answer = answer or accept
        self._status = status
        self._out: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def send(self, data: bytes, deadline: Deadline) -> None:
        if not data.startswith(b"{"):
            self.say(self.greeting)
            return
        request = json.loads(data)
        self.seen.append(request)
        answer = self._answer(request)
        if answer is not None:
            self.say(answer)

    def say(self, data: bytes) -> None:
        self._out.put(data)

    def receive(self, deadline: Deadline | None = None) -> bytes:
        try:
            return self._out.get(timeout=None if deadline is None else max(deadline.remaining(), 0.001))
        except queue.Empty as error:
            raise TimeoutError from error

    def stderr(self) -> str:
        return self.said_to_stderr

    def exit_status(self, timeout_s: float) -> int | None:
        return self._status


def render_ok(request: dict[str, Any], ok: object) -> bytes:
    return json.dumps({"id": request["id"], "ok": ok}).encode() + b"\n"


def render_err(request: dict[str, Any], kind: str, **fields: object) -> bytes:
    return json.dumps({"id": request["id"], "err": {"kind": kind, "message": "", **fields}}).encode() + b"\n"


def accept(request: dict[str, Any]) -> bytes:
    """What a host program with nothing to object answers."""
    ok: object = {
        "ping": {},
        "execute": {"note": None, "scheduler": None},
        "lock": LOCKED,
    }.get(request["do"], SNAPSHOT)
    return render_ok(request, ok)


def refuse(kind: str, **fields: object) -> Answer:
    return lambda request: render_err(request, kind, **fields)


def start(script: Script, *, request_s: float = 5.0, ping_every_s: float = 8, connected: bool = True) -> Program:
    timing = Timing(deadlines=Deadlines(program=request_s), ping_every_s=ping_every_s)
    program = Program(KVM01, script, timing=timing, is_connected=lambda: connected)
    program.send(b"0\n", Deadline(request_s))
    return program


def test_a_whole_session_is_four_requests_and_pings_do_not_count() -> None:
    script = Script()
    program = start(script)
    assert program.hello == HELLO
    assert program.lock(by="anna@ctl1", wait_s=60) == LOCKED
    assert program.execute(STEP, deadline_s=20) == {"note": None, "scheduler": None}
    program.ping()
    assert program.unlock(["GPU-9f"]) == SNAPSHOT
    assert program.requests == 3
    assert [one["do"] for one in script.seen] == ["lock", "execute", "ping", "unlock"]
    assert [one["id"] for one in script.seen] == [1, 2, 3, 4]
    assert script.seen[0]["by"] == "anna@ctl1"
    assert script.seen[1]["step"] == STEP
    assert script.seen[3]["gpu_uuids"] == ["GPU-9f"]


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (refuse("Locked", owner="bob@ctl2 attach vm09"), errors.Busy, "bob@ctl2 attach vm09"),
        (refuse("NotLocked"), errors.LeaseLost, "no longer ours"),
        (refuse("Changed", message="A vGPU is there"), errors.StalePlan, "A vGPU is there"),
        (refuse("InUse", message="A40-4Q is in use"), errors.InUse, "A40-4Q is in use"),
        (refuse("Deadline", path="/sys/create"), errors.HostDeadline, "/sys/create"),
        (refuse("LedgerUnwritable", errno="EROFS", message="cannot be written"), errors.LedgerUnwritable, "written"),
        (refuse("LedgerBroken"), errors.LedgerBroken, LEDGER_PATH),
        (refuse("NotRoot"), errors.ProgramFailed, "root"),
        (refuse("LibvirtRefused", why="refused", verb="set_metadata"), errors.HypervisorError, "write the claim"),
        (refuse("BadRequest", message="no such verb"), errors.ProgramFailed, "no such verb"),
        (refuse("Internal", message="KeyError"), errors.ProgramFailed, "KeyError"),
        (refuse("Something new"), errors.ProgramFailed, "Something new"),
    ],
)
def test_each_refusal_has_its_error(answer: Answer, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind, match=said):
        start(Script(answer)).execute(STEP, deadline_s=1)


SHUT_DOWN = "shut vm01 down first; nothing in use is ever removed"
STOP = "stop the process that holds it first; nothing in use is ever removed"
HELD: dict[str, tuple[object, tuple[str, ...], str]] = {
    "the VM alone": (["open by pid 41 (vm01)"], ("open by pid 41 (vm01)",), SHUT_DOWN),
    "another VM": (["vm02 runs on it"], ("vm02 runs on it",), STOP),
    "somebody else too": (["pid 41 (vm01)", "pid 9 (bash)"], ("pid 41 (vm01)", "pid 9 (bash)"), STOP),
    "an odd name": (["open by pid 41 (vm\x1b02)"], ("open by pid 41 (vm?02)",), STOP),
    "very many": (
        [f"pid {number}" for number in range(50_000)],
        (*(f"pid {number}" for number in range(20)), "and 49980 more"),
        STOP,
    ),
    "another shape": ({"a": 1}, (), STOP),
    "nobody is named": ([], (), STOP),
}


@pytest.mark.parametrize("case", HELD.values(), ids=HELD)
def test_what_is_in_use_at_the_last_moment_is_refused_as_a_plan_would_be(
    case: tuple[object, tuple[str, ...], str],
) -> None:
    """Exit 5, whoever found it in use. The details name the holders; if one VM alone has it, the hint is to shut it down."""
    holders, details, hint = case
    held = refuse("InUse", message="A40-4Q is in use", vm="vm01", holders=holders)
    with pytest.raises(errors.InUse) as caught:
        start(Script(held)).execute(STEP, deadline_s=1)
    assert (caught.value.message, caught.value.exit_code) == ("kvm01: A40-4Q is in use", 5)
    assert (caught.value.details, caught.value.hint) == (details, hint)


def test_the_hint_of_what_ends_by_itself_says_nothing_of_whose_it_is() -> None:
    waits = ["a QEMU of another VM, which may have had it, has not ended (pid 42, qemu, state D)"]
    with pytest.raises(errors.StillEnding) as caught:
        start(Script(refuse("NotYet", vm="vm01", waits_for=waits))).execute(STEP, deadline_s=1)
    assert caught.value.details == tuple(waits)
    assert caught.value.hint == "nothing was written; once that has ended, run the same command again"


def test_what_changed_is_said_once() -> None:
    """The host program's message has both already; where it has not, the details say them."""
    said = refuse("Changed", message="expected nothing, found A40-4Q", expected="nothing", found="A40-4Q")
    with pytest.raises(errors.StalePlan, match="expected nothing, found A40-4Q") as caught:
        start(Script(said)).execute(STEP, deadline_s=1)
    assert caught.value.details == ()
    with pytest.raises(errors.StalePlan) as caught:
        start(Script(refuse("Changed", expected="nothing", found="A40-4Q"))).execute(STEP, deadline_s=1)
    assert caught.value.details == ("expected: nothing", "found: A40-4Q")


def test_a_write_that_the_kernel_refused_carries_path_and_errno() -> None:
    program = start(Script(refuse("SysfsRefused", path="/sys/create", errno="EIO", read_back="0")))
    with pytest.raises(errors.SysfsRefused, match="/sys/create: EIO") as caught:
        program.execute(STEP, deadline_s=1)
    assert (caught.value.path, caught.value.errno_name) == ("/sys/create", "EIO")
    assert [detail.partition(":")[0] for detail in caught.value.details] == ["likely"] + ["less likely"] * (
        len(caught.value.details) - 1
    )
    assert "dmesg" in (caught.value.hint or "")


def test_what_the_logs_said_comes_first_in_the_details_with_its_meaning_and_as_nothing_but_text() -> None:
    said = [
        "kernel: NVRM: Failed to add vgpu create request: 0x38",
        "kernel: NVRM: a\x1b[2J\nb",
        7,
        *map(str, range(99)),
    ]
    with pytest.raises(errors.SysfsRefused) as caught:
        start(Script(refuse("SysfsRefused", path="/sys/create", errno="EIO", log=said))).execute(STEP, deadline_s=1)
    first, second, third, *_ = caught.value.details
    assert first == f"{said[0]} (no GPU instance there fits the type)"
    assert (second, third) == ("kernel: NVRM: a?[2J b", "7")
    assert caught.value.details[20] == "and 82 more"
    assert caught.value.details[21].startswith("likely: ")
    assert (caught.value.hint or "").startswith("the first details are the driver's own words")
    for no_lines in ("NVRM", {"a": 1}, None, 7):
        with pytest.raises(errors.NvmlRefused) as without:
            start(Script(refuse("NvmlRefused", function="f", code=3, log=no_lines))).execute(STEP, deadline_s=1)
        assert without.value.details[0].startswith("likely: ")


@pytest.mark.parametrize(
    ("code", "cause", "hint"),
    [
        (3, "likely: a vGPU runs on this GPU", "dmesg on kvm01"),
        (9, "likely: the nvidia module is not loaded", "modprobe nvidia"),
        (16, "likely: the driver failed halfway", "reboot kvm01"),
        (77, "likely: the driver failed without giving a reason", "dmesg"),
    ],
)
def test_what_nvml_refused_carries_function_and_code_and_the_likeliest_cause_first(
    code: int, cause: str, hint: str
) -> None:
    refusal = refuse("NvmlRefused", function="nvmlDeviceSetVgpuSchedulerState", code=code, message="Not Supported")
    with pytest.raises(errors.NvmlRefused, match="Not Supported") as caught:
        start(Script(refusal)).execute(STEP, deadline_s=1)
    assert (caught.value.function, caught.value.code) == ("nvmlDeviceSetVgpuSchedulerState", code)
    assert caught.value.details[0].startswith(cause)
    assert hint in (caught.value.hint or "")
    assert (caught.value.exit_code, caught.value.outcome) == (1, "failed")


def test_what_a_tool_of_nvidias_did_not_do_is_told_with_its_command_line_and_last_lines() -> None:
    command = "/usr/lib/nvidia/sriov-manage -e 0000:41:00.0"
    refusal = refuse(
        "ToolRefused", command=command, status=0, output="Enabling VFs\n\x1b[31mno", message="without effect"
    )
    with pytest.raises(errors.ToolRefused, match="without effect") as caught:
        start(Script(refusal)).execute(STEP, deadline_s=1)
    assert (caught.value.command, caught.value.exit_code, caught.value.outcome) == (command, 1, "failed")
    assert caught.value.details[0] == "Enabling VFs"
    assert not any("\x1b" in line for line in caught.value.details)


@pytest.mark.parametrize("code", [None, "3", True, 3.0])
def test_a_code_of_another_shape_is_the_unknown_one(code: object) -> None:
    with pytest.raises(errors.NvmlRefused, match="nvmlInit: NVML 999") as caught:
        start(Script(refuse("NvmlRefused", function="nvmlInit", code=code))).execute(STEP, deadline_s=1)
    assert caught.value.code == 999


def test_a_refused_file_of_modprobe_is_explained_as_a_file_and_not_as_the_drivers() -> None:
    path = "/etc/modprobe.d/vgpumgr.conf"
    with pytest.raises(errors.SysfsRefused) as caught:
        start(Script(refuse("SysfsRefused", path=path, errno="ELOOP", read_back=None))).execute(STEP, deadline_s=1)
    assert "symbolic link" in caught.value.details[0]
    assert caught.value.hint == f"check {path} on kvm01; then run the same command again"


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (refuse("Internal"), "this is a bug"),
        (refuse("BadRequest"), "this is a bug"),
        (refuse("Something new"), "something on kvm01 answers in place of vgpumgr's own program"),
        (lambda request: render_ok(request, {"note": 1}), "something on kvm01 answers in place"),
    ],
)
def test_what_the_host_program_never_says_is_the_hosts_fault_and_no_bug(answer: Answer, hint: str) -> None:
    with pytest.raises(errors.ProgramFailed) as caught:
        start(Script(answer)).execute(STEP, deadline_s=1)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize("now_us", [2**64, -5, None, "now"])
def test_a_clock_that_no_host_has_is_the_hosts_fault_and_named(now_us: object) -> None:
    """What has no unknown is not guessed: the others are read, and this one is told (found: breaker F12)."""
    facts = {"protocol": 1, "boot": "b", "now_us": now_us, "driver": None, "gpus": [], "ledger": [], "unknown": []}
    with pytest.raises(errors.ProgramFailed) as caught:
        start(Script(lambda request: render_ok(request, facts))).sample(since={}, wait_s=0)
    assert "now_us" in caught.value.message
    assert (caught.value.hint or "").startswith("something on kvm01 answers in place of vgpumgr's own program")


def test_a_scheduler_of_another_shape_is_refused_by_its_place() -> None:
    wrong = {**SCHEDULER, "engines": [{"engine": "graphics", "policy": 3}]}
    ok = {"note": None, "scheduler": wrong}
    with pytest.raises(errors.ProgramFailed, match=r"result\.scheduler\.engines\[0\]\.policy is 3, not one of"):
        start(Script(lambda request: render_ok(request, ok))).execute(SET, deadline_s=1)


@given(
    st.dictionaries(
        st.sampled_from(["message", "path", "errno", "owner", "found", "function", "code"]), st.text() | st.none()
    )
)
def test_what_a_refusal_quotes_is_one_printable_line(fields: dict[str, Any]) -> None:
    for kind in ("Locked", "Changed", "InUse", "SysfsRefused", "NvmlRefused", "Internal", "\x1b[31m\n"):
        with pytest.raises(errors.VgpumgrError) as caught:
            start(Script(refuse(kind, **fields))).ping()
        assert caught.value.message.isprintable()


def test_only_a_change_without_an_answer_may_still_happen() -> None:
    program = start(Script(answer=lambda _request: None), request_s=0.05)
    with pytest.raises(errors.HostDeadline) as caught:
        program.observe(wait_s=0)
    assert caught.value.hint == "the host hangs or is overloaded; a larger --timeout waits longer"
    program = start(Script(answer=lambda _request: None), request_s=0.05)
    with pytest.raises(errors.HostDeadline, match="no answer") as caught:
        program.execute(STEP, deadline_s=0)
    assert "the change may still happen, so check before you repeat it" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("locked", "kind"), [(False, errors.HostDeadline), (True, errors.LeaseLost)], ids=["reading", "locked"]
)
def test_a_controller_that_was_stopped_itself_does_not_blame_the_host(
    monkeypatch: pytest.MonkeyPatch, locked: bool, kind: type[errors.HostError]
) -> None:
    asleep = [0.0]
    real = deadlines.now

    def sleep(request: dict[str, Any]) -> bytes | None:
        if request["do"] == "lock":
            return accept(request)
        asleep[0] = 40.0
        return None

    monkeypatch.setattr(deadlines, "now", lambda: real() + asleep[0])
    program = start(Script(answer=sleep), request_s=1)
    if locked:
        program.lock(by="anna@ctl1", wait_s=0)
    with pytest.raises(kind, match=r"this controller was itself stopped or asleep for some 3[0-9] s") as caught:
        program.observe(wait_s=0)
    assert "overloaded" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize("noise", [b"floods\n" * 20_000, b"x" * 70_000])
def test_a_login_that_prints_without_end_is_not_waited_for(noise: bytes) -> None:

    class Impatient(Script):
        def receive(self, deadline: Deadline | None = None) -> bytes:
            return self._out.get_nowait()

    program = start(Impatient(greeting=noise), request_s=60)
    for _ in range(2):
        with pytest.raises(errors.NotStarted, match="text without end"):
            program.observe(wait_s=0)


def test_behind_another_text_the_greeting_has_half_of_the_time() -> None:
    script = Script(greeting=b"Menu: 1) backup\n")
    with pytest.raises(errors.HostDeadline, match=r"text of its own, and no greeting within 0\.5 s") as caught:
        start(script, request_s=1).observe(wait_s=60)
    assert "it says: Menu: 1) backup" in caught.value.details


def test_the_greeting_is_waited_for_no_longer_than_the_start_may_take_whatever_the_request_may() -> None:
    with pytest.raises(errors.HostDeadline, match=r"no answer within 0\.5 s"):
        start(Script(lambda _request: None, greeting=GREETING[:20]), request_s=0.5).lock(by="me", wait_s=60)


def test_a_program_that_ends_says_why_with_the_end_of_its_stderr() -> None:
    script = Script(greeting=END, status=1)
    script.said_to_stderr = "Traceback (most recent call last):\nImportError: no module named x"
    with pytest.raises(errors.ProgramFailed, match="exit status 1: ImportError") as caught:
        start(script).observe(wait_s=0)
    assert caught.value.details[-1] == "ImportError: no module named x"


def test_what_leaves_nothing_behind_is_sent_right_behind_the_program_and_a_change_after_its_greeting() -> None:
    """One exchange less; and nothing is asked to be changed of a program that has not said what it is."""
    said: list[str] = []

    class Late(Script):
        def send(self, data: bytes, deadline: Deadline) -> None:
            said.append(json.loads(data)["do"] if data.startswith(b"{") else "program")
            super().send(data, deadline)

        def receive(self, deadline: Deadline | None = None) -> bytes:
            said.append("read")
            return super().receive(deadline)

    start(Late()).observe(wait_s=0)
    assert said[:3] == ["program", "observe", "read"]
    said.clear()
    start(Late()).lock(by="me", wait_s=0)
    assert said[:3] == ["program", "lock", "read"]
    said.clear()
    start(Late()).execute(STEP, deadline_s=1)
    assert said[:3] == ["program", "read", "execute"]


@pytest.mark.parametrize(
    "answer",
    [b"nonsense\n", b'{"id":99,"ok":{}}\n', b'{"id":0,"ok":{}}\n', b'{"id":1}\n', b"[]\n", b'{"id":"1","ok":{}}\n'],
)
def test_bytes_that_are_no_answer_end_the_session(answer: bytes) -> None:
    program = start(Script(lambda _: answer))
    with pytest.raises(errors.ProgramFailed, match="not understood"):
        program.ping()
    with pytest.raises(errors.ProgramFailed, match="not understood"):
        program.ping()


def test_the_late_answer_to_a_request_given_up_is_not_taken_for_the_next_one() -> None:
    silent = threading.Event()

    def answer(request: dict[str, Any]) -> bytes | None:
        if request["id"] == 1:
            silent.set()
            return None
        return render_err({"id": 1}, "Internal") + accept(request)

    program = start(Script(answer), request_s=0.2)
    with pytest.raises(errors.HostDeadline):
        program.observe(wait_s=0)
    assert silent.is_set()
    assert program.observe(wait_s=0) == SNAPSHOT


def test_a_lost_connection_is_not_the_programs_fault() -> None:
    with pytest.raises(errors.Unreachable, match="connection was lost"):
        start(Script(lambda _: END), connected=False).ping()


def test_while_the_lock_is_held_an_idle_session_pings() -> None:
    pinged = threading.Event()

    def answer(request: dict[str, Any]) -> bytes:
        if request["do"] == "ping":
            pinged.set()
        return accept(request)

    program = start(Script(answer), ping_every_s=0.05)
    before = set(threading.enumerate())
    program.lock(by="me", wait_s=0)
    assert pinged.wait(60)
    program.unlock([])
    wait_until(lambda: set(threading.enumerate()) <= before)  # nobody is left who would


def test_a_ping_that_fails_in_the_background_is_found_by_the_next_request() -> None:
    script = Script(lambda request: END if request["do"] == "ping" else accept(request))
    program = start(script, ping_every_s=0.05)
    program.lock(by="me", wait_s=0)
    wait_until(lambda: program._lost is not None)
    with pytest.raises(errors.LeaseLost):
        program.execute(STEP, deadline_s=1)


def test_a_host_that_gave_the_lock_up_for_our_silence_is_a_lost_lease() -> None:
    program = start(Script(lambda request: END if request["do"] == "execute" else accept(request), status=3))
    program.lock(by="me", wait_s=0)
    with pytest.raises(errors.LeaseLost, match="released the lock"):
        program.execute(STEP, deadline_s=1)


def test_requests_of_several_threads_wait_for_one_another() -> None:
    script = Script()
    program = start(script)
    threads = [threading.Thread(target=program.ping) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one["id"] for one in script.seen] == list(range(1, 21))
