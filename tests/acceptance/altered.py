"""The program, altered just before it runs (`Lab.run(…, first=…)`): what it counts, and what befalls it between two steps."""

from __future__ import annotations

import atexit
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab_fixtures import zygote
from vgpumgr import resources
from vgpumgr.controller.engine import executor
from vgpumgr.lab.layout import Layout
from vgpumgr.lab.machine import control
from vgpumgr.link import connection, host
from vgpumgr.link.program import bootstrap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.step import Step

# In the host program. Its guard sees nothing:
_BLIND = b"\nRemovalGuard.refuse = RemovalGuard.refuse_by_now = lambda self, step, found: None\n"


def unguarded(environment: Mapping[str, str], *arguments: str, timeout: float) -> None:
    """Run `vgpumgr ARGUMENTS` with a host program whose guard sees nothing; it has to say that all went well."""
    one = zygote().start(*arguments, env=environment, first=blind)
    assert one.wait(timeout) == 0, str(one)


def blind(_: object) -> None:
    _add_to_host_program("/guard.py", _BLIND)


def count_requests(_: object) -> None:
    """The last line on stderr says of each connection that was opened how many requests were made on it."""
    connect = connection.connect
    links: list[Any] = []

    def counting(*args: Any, **kwargs: Any) -> Any:
        links.append(connect(*args, **kwargs))
        return links[-1]

    connection.connect = counting
    atexit.register(lambda: print(json.dumps([link.program.requests for link in links]), file=sys.stderr))  # noqa: T201


def unlucky(luck: dict[str, Any]) -> None:
    """Ask the supervisor of kvm01 for `op` just before the first step whose verb is `before`."""
    execute = executor.Executor.execute

    def strike(self: executor.Executor, step: Step) -> None:
        if step.verb == luck["before"]:
            executor.Executor.execute = execute  # type: ignore[method-assign]
            control.ask(Layout(folder=Path(luck["dir"])).host("kvm01"), luck["op"], luck["fields"])
        execute(self, step)

    executor.Executor.execute = strike  # type: ignore[method-assign]
    host.STEP_DEADLINE_S = luck["deadline_s"]


def _add_to_host_program(end: str, text: bytes) -> None:
    """To the one file whose name ends so. What is made of it is not kept for others."""
    sources = resources.host_sources()
    (name,) = (name for name in sources if name.endswith(end))
    resources.host_sources = lambda: {**sources, name: sources[name] + text}
    sys.dont_write_bytecode = True
    bootstrap._packages.cache_clear()  # the zygote has made it for all
