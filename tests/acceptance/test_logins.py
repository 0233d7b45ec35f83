"""A login that is not root's: every command goes through sudo. What sudo refuses: test_login_troubles.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import inventories
from tests.acceptance.command import vgpumgr, vgpus
from tests.lab_fixtures import ONE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A lab, reached by that inventory."""

    lab: Lab
    inventory: Path

    def run(self, *arguments: str) -> Any:
        return self.lab.run("-i", str(self.inventory), *arguments)


@pytest.fixture(scope="module")
def site(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("logins")
    with lab_factory.lend(ONE, wiped=True) as lab:
        inventory = inventories.copy(lab, folder)
        hosts = inventory / "hosts.yml"
        said = hosts.read_text(encoding="utf-8")
        assert "ansible_user: root" in said
        hosts.write_text(
            said.replace("ansible_user: root", "ansible_user: ops\n    ansible_become: true"), encoding="utf-8"
        )
        yield Site(lab=lab, inventory=inventory)


def test_a_user_with_sudo_can_do_everything_and_nothing_is_left_on_the_host(site: Site) -> None:
    def files() -> str:
        return site.lab.must(HOST, "find /home /tmp /usr/local /root /var/tmp -not -path '*/.ssh*' | sort")

    before = files()
    vgpumgr(site, "attach", VM, "--profile", "4Q")
    assert [row["vm"] for row in vgpus(site)] == [VM]
    vgpumgr(site, "scheduler", "set", "--on", HOST, "--gpu-id", "0000:41:00.0", "--policy", "equal-share", "--yes")
    vgpumgr(site, "reconcile", "--yes")
    vgpumgr(site, "collect")
    vgpumgr(site, "discover")
    vgpumgr(site, "detach", VM, "--yes")
    assert vgpus(site) == []
    assert files() == before
