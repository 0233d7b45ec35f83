"""One file of each stored shape, written by the product itself from these values: tests/cases/stored/."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.core.model.test_domain_dumps import document
from tests.unit.host.fakehost import MDEV_VF, VENDOR, make_entry, make_record
from tests.unit.store.samples_of import SECOND, T0, load, measured_round
from tests.unit.stored_claims import stored_claims
from vgpumgr.core.model import claims
from vgpumgr.core.usage.runs import LastRun, PlannedHost
from vgpumgr.host.files import Root
from vgpumgr.host.ledger.ledger import Ledger, write_ledger
from vgpumgr.host.protocol.ledger import (
    ASLEEP,
    LEDGER_PATH,
    LEDGER_VERSION,
    LEDGER_VERSION_WITHOUT_CORDONED_VFS,
    LEDGER_VERSION_WITHOUT_CORDONS,
    LEDGER_VERSION_WITHOUT_INSTANCES,
    LEDGER_VERSION_WITHOUT_LAZIES,
    LEDGER_VERSION_WITHOUT_RESERVATIONS,
)
from vgpumgr.names import Slot
from vgpumgr.store.journal import Journal
from vgpumgr.store.journal_entry import Intent
from vgpumgr.store.sql import journal as sql_journal
from vgpumgr.store.sql import runs as sql_runs
from vgpumgr.store.sql import sample_tables
from vgpumgr.store.sql.samples import Samples

STORED = Path(__file__).parents[1] / "cases/stored"
LEDGER = STORED / f"ledger-{LEDGER_VERSION}.json"
LEDGER_WITHOUT_LAZIES = STORED / f"ledger-{LEDGER_VERSION_WITHOUT_LAZIES}.json"
LEDGER_WITHOUT_CORDONED_VFS = STORED / f"ledger-{LEDGER_VERSION_WITHOUT_CORDONED_VFS}.json"
LEDGER_WITHOUT_RESERVATIONS = STORED / f"ledger-{LEDGER_VERSION_WITHOUT_RESERVATIONS}.json"
LEDGER_WITHOUT_INSTANCES = STORED / f"ledger-{LEDGER_VERSION_WITHOUT_INSTANCES}.json"
LEDGER_WITHOUT_CORDONS = STORED / f"ledger-{LEDGER_VERSION_WITHOUT_CORDONS}.json"
LEDGERS = (
    LEDGER,
    LEDGER_WITHOUT_LAZIES,
    LEDGER_WITHOUT_CORDONED_VFS,
    LEDGER_WITHOUT_RESERVATIONS,
    LEDGER_WITHOUT_INSTANCES,
    LEDGER_WITHOUT_CORDONS,
)
CLAIM = STORED / f"claim-{claims.VERSION}.xml"
JOURNAL = STORED / f"journal-{sql_journal.SCHEMA.version}.db"
SAMPLES = STORED / f"samples-{sample_tables.SCHEMA.version}.db"

ENTRIES = (
    make_entry(MDEV_VF),
    make_entry(VENDOR, slot="vgpu1", vf_index=1, parent="0000:41:00.5", state="leaving"),
)
BLOCKED_WRITE = make_record(VENDOR, slot="vgpu1", since="2026-11-22T12:00:00Z")
CORDON = {
    "gpu_uuid": ENTRIES[1]["gpu_uuid"],
    "gpu": ENTRIES[1]["gpu"],
    "reason": "ECC errors",
    "by": "anna@ctl1",
    "at": "2026-11-22T12:00:00Z",
}
VF_CORDON = {**CORDON, "vf_index": ENTRIES[1]["vf_index"], "vf": ENTRIES[1]["parent"]}
INSTANCE = {
    "gpu_uuid": ENTRIES[0]["gpu_uuid"],
    "gpu": ENTRIES[0]["gpu"],
    "profile": "2g.10gb",
    "profile_id": 14,
    "start": 2,
    "size": 2,
    "boot": ENTRIES[0]["boot"],
    "state": "made",
}
MIG_ENTRY = make_entry(
    VENDOR,
    slot="vgpu2",
    vf_index=2,
    parent="0000:41:00.6",
    mig={key: INSTANCE[key] for key in ("profile", "profile_id", "start")},
)
LAZY_ENTRY = make_entry(VENDOR, slot="vgpu3", vf_index=4, parent="0000:41:01.0", boot=ASLEEP, lazy=True)
RESERVATION = {
    **{key: value for key, value in ENTRIES[1].items() if key not in ("boot", "state")},
    "vm_name": "team-a",
    "slot": "vgpu0",
    "generation": 0,
    "vf_index": 3,
    "parent": "0000:41:00.7",
    "mig": None,
    "owner": "team-a",
    "by": "anna@ctl1",
    "at": "2026-11-22T12:00:00Z",
    "until": 4102444800,  # 2100-01-01
    "taker": None,
}
FREED = {"vm_uuid": ENTRIES[0]["vm_uuid"], "slot": "vgpu2", "generation": 3}

DECLARED = replace(
    document().claims[0], slot=Slot("vgpu1"), origin="inventory", site="lab1", declared="host_vars/kvm01"
)
CLAIMS = document().put(DECLARED)

ENTRY = Intent(
    verb="attach",
    why="asked --profile 4Q",
    host="kvm01",
    vm="vm01",
    vm_uuid=str(CLAIMS.vm),
    slot="vgpu0",
    gpu="0000:41:00.0",
    steps=({"verb": "create_vgpu", "host": "kvm01", "vm": "vm01", "slot": "vgpu0"},),
)
BY, AT, ENDED_AT = "anna@ctl1", "2026-11-22T12:00:00Z", "2026-11-22T12:00:02Z"

RUN = LastRun(kind="reconcile", at=1e9, seconds=12.5, exit_code=5)
PLANNED = (
    PlannedHost(
        host="kvm01",
        at=1e9,
        reached=True,
        drift=2,
        waiting=1,
        nvml_silent=True,
        refused={"InUse": 1},
        findings={"lost": 3},
        fits={"A40-4Q": 9},
        owners={"vm01": "team-a"},
    ),
    PlannedHost(host="kvm02", at=1e9, reached=False),
)

ROUND = measured_round({"vm1": load(60, 5), "vm2": None, None: load(None)}, since_us=T0, until_us=T0 + 10 * SECOND)


def write(folder: Path) -> None:
    """Write today's file of each shape into an empty folder."""
    root = folder / "host"
    (root / LEDGER_PATH.lstrip("/")).parent.parent.mkdir(parents=True)
    whole = {"version": LEDGER_VERSION, "settings": {}, "entries": []}
    oldest = Ledger(document=whole, entries=ENTRIES, blocked_writes=(BLOCKED_WRITE,), freed=(FREED,))
    with_cordon = oldest._replace(cordons=(CORDON,))
    with_instance = with_cordon._replace(entries=(*ENTRIES, MIG_ENTRY), instances=(INSTANCE,))
    with_reservation = with_instance._replace(reservations=(RESERVATION,))
    with_cordoned_vf = with_reservation._replace(cordons=(CORDON, VF_CORDON))
    ledgers = {
        LEDGER_WITHOUT_CORDONS: oldest,
        LEDGER_WITHOUT_INSTANCES: with_cordon,
        LEDGER_WITHOUT_RESERVATIONS: with_instance,
        LEDGER_WITHOUT_CORDONED_VFS: with_reservation,
        LEDGER_WITHOUT_LAZIES: with_cordoned_vf,
        LEDGER: with_cordoned_vf._replace(entries=(*ENTRIES, MIG_ENTRY, LAZY_ENTRY)),
    }
    for path, ledger in ledgers.items():
        write_ledger(Root(root), ledger)
        (root / LEDGER_PATH.lstrip("/")).rename(folder / path.name)
    (folder / CLAIM.name).write_text(stored_claims(CLAIMS) + "\n")
    journal = Journal(folder / JOURNAL.name, warn=print)
    number = journal.begin(ENTRY, by=BY, at=AT)
    journal.end(number, at=ENDED_AT, outcome="done")
    Samples(folder / SAMPLES.name).add([ROUND], every_s=10)
    sql_runs.put(folder / SAMPLES.name, RUN, PLANNED, fleet={"kvm01", "kvm02"})


def main() -> None:
    import shutil
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for path in (*LEDGERS, CLAIM, JOURNAL, SAMPLES):
            shutil.copyfile(Path(folder) / path.name, path)


if __name__ == "__main__":
    main()
