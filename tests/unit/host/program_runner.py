"""The host program on a fake root, as a process of its own: ROOT, then `--key value` for what a test injects.

--lease S    the lease's length
--kill POINT SIGKILL itself at this point of a step
--block      writes never return; the file BEGUN tells that one has begun
--api N      NVML is a fake with the scheduler calls of version N
--mig        NVML is a fake with MIG
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.unit.host.fakehost import FakeHost, make_server, no_nvml
from tests.unit.host.fakemig import FakeMig
from tests.unit.host.fakenvml import FakeNvml
from vgpumgr.host.files import Root
from vgpumgr.host.program import Channel, end_on_signals, serve

if TYPE_CHECKING:
    from collections.abc import Callable

BEGUN = "begun"  # in ROOT


def _count_renames(kill: str) -> None:
    """Let `rename-2` mean: in the second rename, when the new ledger is written and the old one still there."""
    numbers = itertools.count(1)
    rename = os.rename

    def counting(old: Any, new: Any) -> None:
        if kill == f"rename-{next(numbers)}":
            os.kill(os.getpid(), signal.SIGKILL)
        rename(old, new)

    os.rename = counting  # type: ignore[assignment]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--lease", type=float, default=30)
    parser.add_argument("--kill", default="")
    parser.add_argument("--block", action="store_true")
    parser.add_argument("--api", type=int)
    parser.add_argument("--mig", action="store_true")
    options = parser.parse_args(arguments)

    def at(point: str) -> None:
        if point == options.kill:
            os.kill(os.getpid(), signal.SIGKILL)

    def never(path: str, data: bytes) -> None:
        (options.root / BEGUN).touch()
        while True:
            time.sleep(3600)

    _count_renames(options.kill)
    write = never if options.block else FakeHost(options.root).driver_write
    nvml: Callable[[], Any] = no_nvml
    if options.api:
        fake = FakeNvml(api=options.api, host=FakeHost(options.root), video_takes=True)
        nvml = lambda: fake  # noqa: E731
    if options.mig:
        nvml = lambda: FakeMig(FakeHost(options.root))  # noqa: E731
    end_on_signals()
    channel = Channel(0, 1)
    server = make_server(FakeHost(options.root), nvml=nvml, gone=channel.hung_up, write=write, at=at)
    return serve(lambda: server, channel, lease_s=options.lease, root=Root(options.root))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
