"""Changes of a definition when libvirt refuses, hangs or is lost: whether a change may have been made is always told."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pytest

from vgpumgr.host.libvirt import binding
from vgpumgr.host.libvirt.client import Client
from vgpumgr.host.libvirt.service import Libvirt
from vgpumgr.host.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.host.protocol.steps import DefinitionStep, DeviceStep, MetadataStep, StartStep

VM = "6a1f0000-0000-0000-0000-000000000001"
ATTACH: DeviceStep = {"verb": "attach_device", "vm_uuid": VM, "xml": "<hostdev/>"}
DETACH: DeviceStep = {"verb": "detach_device", "vm_uuid": VM, "xml": "<hostdev/>"}
PUT: MetadataStep = {"verb": "set_metadata", "vm_uuid": VM, "xml": "<claim/>", "key": "v", "uri": "urn:x"}
PLUG: DeviceStep = {"verb": "plug_device", "vm_uuid": VM, "xml": "<hostdev/>"}
UNPLUG: DeviceStep = {"verb": "unplug_device", "vm_uuid": VM, "xml": "<hostdev/>"}
START: StartStep = {"verb": "start_domain", "vm_uuid": VM}
DROP: MetadataStep = {**PUT, "xml": None}
SLOW_S = 0.05


@dataclass(slots=True)
class Daemon:
    """A libvirt of one domain; it is the library, the connection and the domain. `says`: what it refuses a call with.

    `hangs`: the calls that wait until `goes_on`. `done`: what it was asked, and did.
    """

    says: dict[str, binding.LibvirtError] = field(default_factory=dict)
    hangs: set[str] = field(default_factory=set)
    goes_on: threading.Event = field(default_factory=threading.Event)
    done: list[tuple[Any, ...]] = field(default_factory=list)
    alive: bool = True
    shut_off: tuple[int, int] = binding.START_FAILED

    def _do(self, name: str, *arguments: Any) -> None:
        if name in self.hangs:
            self.goes_on.wait(30)
        if name in self.says:
            raise self.says[name]
        self.done.append((name, *arguments))

    def open(self) -> Daemon:
        self._do("open")
        return self

    def lookup(self, uuid: str) -> Daemon:
        self._do("lookup", uuid)
        return self

    def set_metadata(self, xml: str | None, *, key: str, uri: str) -> None:
        self._do("set_metadata", xml, key, uri)

    def attach_device(self, xml: str, affect: int) -> None:
        self._do("attach_device", xml, affect)

    def detach_device(self, xml: str, affect: int) -> None:
        self._do("detach_device", xml, affect)

    def state(self) -> tuple[int, int]:
        return self.shut_off

    def start(self) -> None:
        self._do("start")

    def free(self) -> None:
        self.done.append(("free",))


@pytest.fixture
def daemon() -> Daemon:
    return Daemon()


def libvirt(daemon: Daemon) -> Libvirt:
    return Libvirt(Client(cast("Callable[[], binding.Library]", lambda: daemon)))


def refuse(daemon: Daemon, step: DefinitionStep, wait_s: float = 5) -> dict[str, Any]:
    with pytest.raises(Refusal) as caught:
        libvirt(daemon).change(step, wait_s)
    assert caught.value.kind == "LibvirtRefused"
    assert caught.value.fields["verb"] == step["verb"]
    return {"message": caught.value.message, **caught.value.fields}


@pytest.mark.parametrize(
    ("step", "call"),
    [
        (PUT, ("set_metadata", "<claim/>", "v", "urn:x")),
        (DROP, ("set_metadata", None, "v", "urn:x")),
        (ATTACH, ("attach_device", "<hostdev/>", binding.AFFECT_CONFIG)),
        (DETACH, ("detach_device", "<hostdev/>", binding.AFFECT_CONFIG)),
        (PLUG, ("attach_device", "<hostdev/>", binding.AFFECT_LIVE)),
        (UNPLUG, ("detach_device", "<hostdev/>", binding.AFFECT_LIVE)),
    ],
)
def test_each_step_is_one_call_for_the_vm_and_the_connection_is_kept(
    daemon: Daemon, step: DefinitionStep, call: tuple[object, ...]
) -> None:
    service = libvirt(daemon)
    service.change(step, 5)
    service.change(step, 5)
    once = [("lookup", VM), call, ("free",)]
    assert daemon.done == [("open",), *once, *once]


def test_what_is_not_there_may_be_removed(daemon: Daemon) -> None:
    daemon.says["set_metadata"] = binding.LibvirtError(binding.NO_DOMAIN_METADATA, "no metadata")
    libvirt(daemon).change(DROP, 5)
    assert refuse(daemon, PUT)["code"] == binding.NO_DOMAIN_METADATA


def test_a_refusal_has_libvirts_words_and_the_next_change_goes_on(daemon: Daemon) -> None:
    daemon.says["attach_device"] = binding.LibvirtError(27, "XML error: no source")
    assert refuse(daemon, ATTACH) == {
        "message": "XML error: no source",
        "why": "refused",
        "code": 27,
        "verb": "attach_device",
        "begun": True,
    }
    libvirt(daemon).change(PUT, 5)


@pytest.mark.parametrize("lost_in", ["open", "lookup", "attach_device"])
def test_a_lost_connection_says_whether_the_change_was_requested(daemon: Daemon, lost_in: str) -> None:
    daemon.says[lost_in], daemon.alive = binding.LibvirtError(38, "End of file"), False
    said = refuse(daemon, ATTACH)
    assert (said["why"], said["begun"]) == ("closed", lost_in == "attach_device")


@pytest.mark.parametrize("where", ["open", "lookup"])
def test_a_change_that_was_given_up_before_it_was_requested_is_never_made(daemon: Daemon, where: str) -> None:
    """A libvirtd that hangs and goes on much later must not carry out what has been reported as not done."""
    daemon.hangs.add(where)
    service = libvirt(daemon)
    for said in (r"no answer within 0\.05 s", "an earlier call has not been answered"):
        with pytest.raises(Refusal, match=said) as caught:
            service.change(ATTACH, SLOW_S)
        assert (caught.value.fields["why"], caught.value.fields["begun"]) == ("silent", False)
    daemon.goes_on.set()
    wait_for_thread()
    assert ("attach_device", "<hostdev/>") not in daemon.done


def test_a_change_that_hangs_may_be_made_later(daemon: Daemon) -> None:
    daemon.hangs.add("attach_device")
    assert refuse(daemon, ATTACH, SLOW_S)["begun"] is True
    daemon.goes_on.set()
    wait_for_thread()
    assert ("attach_device", "<hostdev/>", binding.AFFECT_CONFIG) in daemon.done


def wait_for_thread() -> None:
    for thread in threading.enumerate():
        if thread.name == "libvirt":
            thread.join(10)
            assert not thread.is_alive()


def test_only_a_vm_whose_last_start_failed_is_started(daemon: Daemon) -> None:
    libvirt(daemon).change(START, 5)
    assert ("start",) in daemon.done
    daemon.done.clear()
    daemon.shut_off = (5, 1)
    with pytest.raises(Refusal) as caught:
        libvirt(daemon).change(START, 5)
    assert caught.value.kind == "Changed"
    assert ("start",) not in daemon.done
