"""try_vf: what NVIDIA's driver should refuse is written, and only what changes nothing where it is accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import GPU_A, OTHER_VM, UUID_A, VENDOR, FakeHost, make_step
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.files import Root
from vgpumgr.host.refusal import Refusal
from vgpumgr.host.steps.try_step import try_vf

if TYPE_CHECKING:
    from pathlib import Path

VF = f"{GPU_A[:-1]}4"


def make(type_id: int, **more: Any) -> Any:
    return {"verb": "try_vf", "gpu_uuid": UUID_A, "gpu": GPU_A, "parent": VF, "type_id": type_id, **more}


class Driver:
    """What is written, in the child: a file beside the host tells it."""

    def __init__(self, folder: Path, number: int | None) -> None:
        self.file = folder / "written"
        self.number = number

    def write(self, path: str, data: bytes) -> None:
        self.file.write_text(f"{path.rpartition('/nvidia/')[2]} {data!r}")
        if self.number is not None:
            raise OSError(self.number, "refused")


def entry() -> dict[str, Any]:
    step = make_step(VENDOR)
    return {key: step[key] for key in step if key not in ("verb", "expect", "param", "replaces", "runs", "listed")} | {
        "boot": "b", "state": "made"
    }  # fmt: skip


@pytest.mark.parametrize("type_id", [0, 560])
@pytest.mark.parametrize("number", [1, None])
def test_a_vf_is_given_the_type_that_it_has_and_the_refusal_is_the_answer(
    type_id: int, number: int | None, tmp_path: Path
) -> None:
    host, driver = FakeHost.build(tmp_path / "host", VENDOR), Driver(tmp_path, number)
    if type_id:
        host.make_vgpu(VF, type_id, None)
        host.put_ledger(entry())
    if number is None:
        try_vf(Root(host.root), lambda: FakeNvml(host=host), make(type_id), driver.write, deadline_s=5)
    else:
        with pytest.raises(Refusal) as raised:
            try_vf(Root(host.root), lambda: FakeNvml(host=host), make(type_id), driver.write, deadline_s=5)
        assert (raised.value.kind, raised.value.fields["errno"]) == ("SysfsRefused", "EPERM")
    assert driver.file.read_text() == f"current_vgpu_type b'{type_id}\\n'"


@pytest.mark.parametrize(
    ("has", "ours", "step", "kind"),
    [
        (560, False, make(560), "InUse"),
        (560, True, make(0), "Changed"),
        (0, False, make(560), "Changed"),
        (0, False, make(0, parent="0000:99:00.4"), "Changed"),
        (0, False, make(0, gpu_uuid="GPU-other"), "Changed"),
    ],
)
def test_nothing_is_written_to_what_is_not_as_it_should_be(
    has: int, ours: bool, step: Any, kind: str, tmp_path: Path
) -> None:
    host, driver = FakeHost.build(tmp_path / "host", VENDOR), Driver(tmp_path, None)
    if has:
        host.make_vgpu(VF, has, None)
    if ours:
        host.put_ledger(entry())
    with pytest.raises(Refusal) as raised:
        try_vf(Root(host.root), lambda: FakeNvml(host=host), step, driver.write, deadline_s=5)
    assert raised.value.kind == kind
    assert not driver.file.exists()


def test_nothing_is_written_while_a_vm_runs_on_the_gpu(tmp_path: Path) -> None:
    host, driver = FakeHost.build(tmp_path / "host", VENDOR), Driver(tmp_path, None)
    host.make_vgpu(VF, 560, None)
    host.put_ledger(entry())
    host.add_process(4242, "/dev/vfio/650", command=("qemu-system-x86_64", "-uuid", OTHER_VM))
    with pytest.raises(Refusal, match="in use"):
        try_vf(Root(host.root), lambda: FakeNvml(host=host), make(560), driver.write, deadline_s=5)
    assert not driver.file.exists()
