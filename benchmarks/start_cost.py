"""What `vgpumgr --help` costs beside `python -c "import click"`: medians of nine, run in turn.

    .venv/bin/python -m benchmarks.start_cost

Not a test, because a loaded machine would fail it; tests/unit/cli/test_startup.py holds what makes it so: the imports.
"""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.measured import PROGRAM, Row, in_turn, report, spent

CLICK = 'python -c "import click"'
LIMIT = 1.5


def main() -> int:
    """Measure; exit 1 where it is over the limit."""
    commands = {CLICK: [sys.executable, "-c", "import click"], "vgpumgr --help": [PROGRAM, "--help"]}
    costs = in_turn({name: partial(spent, command) for name, command in commands.items()})
    peer = costs.pop(CLICK)
    rows = [
        Row(f"{name}, {CLICK}", cost.wall * 1000, "ms", peer.wall * 1000, most_ratio=LIMIT)
        for name, cost in costs.items()
    ]
    return report(rows)


if __name__ == "__main__":
    sys.exit(main())
