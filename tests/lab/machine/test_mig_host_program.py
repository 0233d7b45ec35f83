"""The host program on lab hosts with MIG: its facts and steps over the compiled NVML, sriov-manage, nvidia-smi and /sys."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab_fixtures import fewer_vfs
from vgpumgr import errors
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.lab import fleet
from vgpumgr.link import connection
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory
    from vgpumgr.core.model.mig import Mig
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.link.connection import HostLink

pytestmark = pytest.mark.lab

GPU = "0000:41:00.0"
UUID = "9e0d0000-0000-4000-8000-0000000000e1"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = lab_factory(fewer_vfs("mig", tmp_path_factory.mktemp("mig")), shared=False)
    yield made
    made.down()


class Session:
    """A locked session with a host; steps are of its first GPU."""

    def __init__(self, link: HostLink) -> None:
        self._link = link
        self.snapshot: HostSnapshot = link.lock(by="test", wait_s=5).snapshot

    def look(self) -> HostSnapshot:
        self.snapshot = self._link.observe(wait_s=5).snapshot
        return self.snapshot

    @property
    def gpu(self) -> Gpu:
        return next(gpu for gpu in self.snapshot.gpus if gpu.pci == GPU)

    @property
    def mig(self) -> Mig:
        assert self.gpu.mig is not None
        return self.gpu.mig

    def run(self, verb: str, **keys: Any) -> str | None:
        step: Any = {"verb": verb, "gpu_uuid": self.gpu.uuid, "gpu": GPU, **keys}
        note = self._link.program.execute(step, deadline_s=60)["note"]
        self.look()
        return note

    def instance(self, verb: str, name: str, start: int, expect: str) -> str | None:
        profile = next(profile for profile in self.mig.profiles if profile.name == name)
        return self.run(verb, profile=name, profile_id=profile.id, start=start, size=profile.size, expect=expect)

    def places(self) -> list[tuple[int, int, int | None]]:
        return [(one.profile_id, one.start, one.compute) for one in self.mig.instances or ()]

    def ours(self) -> list[tuple[str, int, str]]:
        return [(entry.instance.profile, entry.instance.start, entry.state) for entry in self.snapshot.instances]


@contextlib.contextmanager
def session(lab: Lab, host: str) -> Iterator[Session]:
    endpoint = Endpoint(
        host=HostName(host),
        address="127.0.0.1",
        port=fleet.read(lab.layout).host(host).port or 0,
        user="root",
        key_file=str(lab.layout.key),
        known_hosts=str(lab.layout.known_hosts),
        ssh_config="none",
    )
    with connection.connect(endpoint) as link:
        yield Session(link)


def vgpu(one: Session, start: int, **more: Any) -> dict[str, Any]:
    """The step for a 2-10C on the first VF, in the 2g.10gb at that start."""
    kind = next(kind for kind in (one.gpu.types or {}).values() if kind.type_name == "A100-2-10C")
    parent = one.gpu.parents[0]
    return {
        "verb": "create_vgpu",
        "vm_uuid": "6a1f0000-0000-4000-8000-000000000001",
        "vm_name": "vm01",
        "slot": "vgpu0",
        "generation": 1,
        "vf_index": parent.vf_index,
        "parent": parent.pci,
        "uuid": UUID,
        "type_id": kind.id,
        "type_name": kind.name,
        "placement_id": None,
        "mig": {"profile": "2g.10gb", "profile_id": kind.mig_profile, "start": start},
        "expect": "empty",
        "runs": False,
        "listed": False,
        **more,
    }


def test_what_is_divided_is_told_and_instances_and_their_vgpus_come_and_go(lab: Lab) -> None:
    with session(lab, "kvm01") as one:
        assert (one.gpu.mode, one.mig.enabled, one.mig.pending, one.places()) == ("mig", True, True, [])
        assert {profile.name: (profile.size, profile.starts) for profile in one.mig.profiles}["3g.20gb"] == (4, (0, 4))
        assert {row.what for row in one.snapshot.unknown if row.gpu == GPU} <= {"scheduler"}
        for start in (0, 4):
            one.instance("create_instance", "2g.10gb", start, "empty")
        assert one.places() == [(14, 0, 1), (14, 4, 1)]
        assert one.ours() == [("2g.10gb", 0, "made"), ("2g.10gb", 4, "made")]
        ids = {instance.start: instance.id for instance in one.mig.instances or ()}
        lower, upper = sorted(ids, key=lambda start: ids[start])
        with pytest.raises(errors.StalePlan, match=f"it in 2g.10gb at {lower}"):
            one.run(**vgpu(one, upper))
        assert (one.look().entries, one.gpu.vgpus) == ((), ())
        assert one.run(**vgpu(one, lower)) is None
        assert [there.gpu_instance for there in one.gpu.vgpus] == [ids[lower]]
        with pytest.raises(errors.InUse, match=f"2g.10gb at {lower}"):
            one.instance("destroy_instance", "2g.10gb", lower, "present")
        one.instance("destroy_instance", "2g.10gb", upper, "present")
        one.run(**vgpu(one, lower, verb="destroy_vgpu", expect="present"))
        one.instance("destroy_instance", "2g.10gb", lower, "present")
        assert (one.places(), one.ours(), one.gpu.vgpus) == ([], [], ())


def test_the_mode_goes_off_and_on_with_vfs_and_resets_between(lab: Lab) -> None:
    with session(lab, "kvm01") as one:
        with pytest.raises(errors.StalePlan, match="no virtual functions"):
            one.run("set_mig", on=False, expect=True)
        lab.control("kvm01", "fault", name="unbind-lock:2")
        one.run("set_vfs", on=False, expect=True)
        assert one.gpu.parents == ()
        assert "next reset" in (one.run("set_mig", on=False, expect=True) or "")
        assert (one.mig.enabled, one.mig.pending) == (True, False)
        one.run("reset_gpu")
        assert (one.mig.enabled, one.mig.pending) == (False, False)
        assert one.run("set_mig", on=False, expect=True) is None
        one.run("set_vfs", on=True, expect=False)
        assert (one.gpu.mode, one.mig.enabled, len(one.gpu.parents)) == ("equal-size", False, 8)
        one.run("set_vfs", on=False, expect=True)
        one.run("set_mig", on=True, expect=False)
        one.run("reset_gpu")
        one.run("set_vfs", on=True, expect=False)
        assert (one.gpu.mode, one.mig.instances) == ("mig", ())
        lab.control("kvm01", "fault", name="no-vfs")
        with pytest.raises(errors.ToolRefused, match="without effect"):
            one.run("set_vfs", on=False, expect=True)
        lab.control("kvm01", "clear")


def test_somebody_elses_instances_are_told_and_left_alone(lab: Lab) -> None:
    with session(lab, "kvm02") as one:
        (there,) = one.mig.instances or ()
        name = next(profile.name for profile in one.mig.profiles if profile.id == there.profile_id)
        with pytest.raises(errors.StalePlan, match="no entry"):
            one.instance("destroy_instance", name, there.start, "present")
        with pytest.raises(errors.InUse, match="somebody else made"):
            one.run("set_vfs", on=False, expect=True)
        assert (one.look().instances, one.mig.instances) == ((), (there,))
