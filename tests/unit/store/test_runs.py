"""What is stored of the last runs: replaced by the next one, and kept for exactly the hosts of the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vgpumgr import errors
from vgpumgr.core.usage.runs import NO_RUNS, LastRun, PlannedHost
from vgpumgr.store.sql import runs

if TYPE_CHECKING:
    from pathlib import Path


def host(name: str, at: float, drift: int = 0) -> PlannedHost:
    return PlannedHost(host=name, at=at, reached=True, drift=drift, refused={"NoCapacity": drift} if drift else {})


def test_a_run_over_some_hosts_renews_those_and_one_over_all_forgets_who_left(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    assert runs.last(path) == NO_RUNS
    assert not path.exists()
    first = LastRun(kind="reconcile", at=1.0, seconds=2.0, exit_code=5)
    runs.put(path, first, [host("kvm01", 1, 3), host("kvm02", 1)], fleet={"kvm01", "kvm02"})
    runs.put(path, None, [host("kvm01", 2)], fleet=None)
    assert runs.last(path).runs == (first,)
    assert runs.last(path).hosts == (host("kvm01", 2), host("kvm02", 1))
    second = LastRun(kind="reconcile", at=3.0, seconds=1.0, exit_code=0)
    planned = LastRun(kind="plan", at=4.0, seconds=1.0, exit_code=3)
    runs.put(path, second, [host("kvm02", 3)], fleet={"kvm02"})
    runs.put(path, planned, [], fleet=None)
    assert runs.last(path).runs == (planned, second)
    assert runs.last(path).hosts == (host("kvm02", 3),)


def test_a_file_that_is_not_ours_is_an_error_and_no_end_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    path.write_bytes(b"not a database, but long enough to look at" * 40)
    with pytest.raises(errors.SamplesCorrupt):
        runs.last(path)
    with pytest.raises(errors.StoreError):
        runs.put(path, None, [host("kvm01", 1)], fleet=None)
