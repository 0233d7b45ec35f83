"""The document of doctor is what its schema says, of hosts and of this machine."""

from __future__ import annotations

from tests.unit.documents import published
from vgpumgr.controller.results import Fleet
from vgpumgr.core.doctor.illness import Illness
from vgpumgr.documents import doctor
from vgpumgr.errors import Unreachable
from vgpumgr.names import HostName
from vgpumgr.wording import Command, say


def test_an_illness_has_all_keys_and_its_first_command() -> None:
    mend = say("`{}`, then `{}`", Command("systemctl", "restart", "nvidia-vgpu-mgr"), Command("reboot"))
    one = Illness(
        kind="unit", severity="critical", certainty="certain", host=None, what="w", evidence="e", harm="h", mend=mend
    )
    unread = (HostName("kvm02"), Unreachable("kvm02", "tcp", "connection refused"))
    for document in (doctor.of_controller([one]), doctor.of_hosts(Fleet(views=((one,),), errors=(unread,)), [one])):
        assert published.problems("doctor", document) == []
        assert published.needless("doctor", document) == []
        rows = document["illnesses"]
        assert isinstance(rows, list)
        assert [row["command"] for row in rows] == ["systemctl restart nvidia-vgpu-mgr"]
