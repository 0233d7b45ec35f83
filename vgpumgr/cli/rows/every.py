"""Every view by the command that prints it: for the pages that describe them, and for the tests that check both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.cli.rows import certify, doctor, gpus, hosts, mig, profiles, report, runs, things, usage, vgpus

if TYPE_CHECKING:
    from vgpumgr.cli.rows.column import View

VIEWS: Final[dict[str, View]] = {
    "list": vgpus.LIST,
    "show": vgpus.SHOW,
    "attach": vgpus.CHANGE,
    "drain": vgpus.DRAIN,
    "plan": runs.RECONCILE,
    "doctor": doctor.DOCTOR,
    "report": report.REPORT,
    "discover": gpus.DISCOVER,
    "mode show": gpus.MODE,
    "scheduler show": gpus.SCHEDULER,
    "cordon": gpus.CORDON,
    "cordon without HOST": gpus.CORDONS,
    "partition": gpus.PARTITION,
    "place": profiles.PLACES,
    "reserve": profiles.RESERVATIONS,
    "explain": gpus.EXPLAIN,
    "explain --compare": gpus.MECHANISMS,
    "capacity": profiles.BOARDS,
    "capacity PROFILE": profiles.ANSWERS,
    "capacity --stranded": profiles.STRANDED,
    "capacity --catalogue": profiles.CATALOGUES,
    "profiles": profiles.PROFILES,
    "profiles --offline": profiles.TYPES,
    "units": profiles.UNITS,
    "fit": profiles.FIT,
    "mig show": mig.MIG_SHOW,
    "mig fit": mig.MIG_FIT,
    "gc": mig.GC,
    "usage": usage.USAGE,
    "usage --idle": usage.IDLE,
    "usage --by owner": usage.OWNERS,
    "advise": usage.ADVICE,
    "top": usage.TOP,
    "collect": hosts.COLLECT,
    "history": runs.HISTORY,
    "waiting": runs.WAITING,
    "reconcile --restart-window": runs.RESTARTS,
    "host install": hosts.INSTALL,
    "host purge": things.PURGED,
    "host certify": certify.CERTIFY,
    "forget": things.FORGOTTEN,
    "host status": hosts.STATUS,
    "inventory check": hosts.INVENTORY,
    "render": things.HOSTDEVS,
    "docs": things.TOPICS,
    "version": things.VERSIONS,
    "install cron": things.FILES,
    "lab status": hosts.LAB,
}
