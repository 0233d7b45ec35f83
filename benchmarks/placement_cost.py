"""How much of a full fleet each placement policy allocates, and how long one decision takes (benchmarks/openb.py).

    .venv/bin/python -m benchmarks.placement_cost --nodes CSV --pods CSV --policy NAME [--seeds N] [--shuffle-names]

The trace's files are those of github.com/hkust-adsl/kubernetes-scheduler-simulator, data/csv. --json prints one object.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import openb
from vgpumgr.core.policies import known
from vgpumgr.errors import PolicyFailed
from vgpumgr.inventory_files import policy_files

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_FIRST_SEED = 42  # as in the original's experiments


def main(arguments: list[str] | None = None) -> int:
    """Replay with each seed, and print what came out."""
    parser = argparse.ArgumentParser(prog="placement_cost", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=Path, required=True, metavar="CSV")
    parser.add_argument("--pods", type=Path, required=True, metavar="CSV")
    parser.add_argument("--policy", required=True, help=f"one of vgpumgr's, of --plugins, or {', '.join(openb.PEERS)}")
    parser.add_argument("--plugins", type=Path, metavar="FOLDER", help="policies of a site's own (docs/plugins.md)")
    parser.add_argument("--seeds", type=int, default=10, metavar="N")
    parser.add_argument("--shuffle-names", action="store_true", help="give each node another's name, by the seed")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    seeds = range(_FIRST_SEED, _FIRST_SEED + asked.seeds)
    try:
        trace, policy = openb.read(asked.nodes, asked.pods), _policy(asked.policy, asked.plugins)
        found = [openb.replay(trace, policy, seed, shuffled=asked.shuffle_names) for seed in seeds]
    except PolicyFailed as error:
        parser.exit(2, f"error: {error.message} ({error.hint})\n")
    except OSError as error:
        parser.exit(2, f"error: {error.filename}: {error.strerror}\n")
    allocated = [outcome.allocated for outcome in found]
    row = {
        "alloc_at_130": round(statistics.fmean(allocated), 3),
        "stdev": round(statistics.stdev(allocated), 3) if len(found) > 1 else 0.0,
        "seeds": len(found),
        "decision_ms": round(statistics.median(ms for outcome in found for ms in outcome.decisions_ms), 3),
    }
    print(json.dumps(row) if asked.json else "  ".join(f"{name} {value:g}" for name, value in row.items()))
    return 0


def _policy(name: str, plugins: Path | None) -> Callable[[openb.Trace, random.Random], openb.Policy]:
    if plugins is not None:
        policy_files.check(plugins)
    return openb.PEERS.get(name) or openb.of_core(known.BUILT_IN.get(name) or policy_files.find(plugins, name))


if __name__ == "__main__":
    sys.exit(main())
