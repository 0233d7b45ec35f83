"""What `partition advise` says below its table: what is gained, or why nothing is."""

from __future__ import annotations

from tests.unit.core.declarations import declares
from tests.unit.core.placing.test_cost import in_equal_size
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr.cli.text import partition_text
from vgpumgr.core.model.attached import History
from vgpumgr.core.reconcile import partition


def said(**attached: int) -> list[str]:
    """What is said of a host with empty GPUs, and of attaches on another host."""
    history = History(
        by_host={"kvm09": {name.strip("_"): count for name, count in attached.items()}} if attached else {}
    )
    return [*partition_text.gains([partition.advise(in_equal_size(), declares(), history, RUN)], 4)]


def test_a_profile_that_no_empty_gpu_takes_is_not_said_to_be_unattached() -> None:
    (line,) = said(_80Q=2)
    assert line == "no GPU without vGPUs takes any profile that was attached in the last 4 weeks"


def test_an_empty_journal_is_said_to_be_empty() -> None:
    (line,) = said()
    assert line.endswith("no declared slot without a vGPU, and no attach of the last 4 weeks in the journal")
    (line,) = said(_8Q=1)
    assert "as the journal's last 4 weeks" in line
