"""The program, altered just before it runs (`Lab.run(…, first=…)`): what it counts, and what befalls it between two steps."""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
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
    from collections.abc import Callable, Mapping

    from vgpumgr.core.plan.step import Step

# In the host program. Its guard sees nothing:
_BLIND = b"\nRemovalGuard.refuse = RemovalGuard.refuse_by_now = lambda self, step, found: None\n"
# Libvirt has attached the device, and nobody hears of it before the connection is lost:
_WITHOUT_ANSWER = b"""
def _attach_without_answer(domain, step):
    domain.attach_device(step["xml"], AFFECT_CONFIG)
    while True:
        domain.xml()
_CHANGES[ATTACH_DEVICE] = _attach_without_answer
"""


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


def struck(number: int) -> None:
    """It gets this signal just before its first step, when all that a run needs is read and decided."""
    _before_step(None, lambda: os.kill(os.getpid(), number))


def unlucky(luck: dict[str, Any]) -> None:
    """At a point of its plan the supervisor of a host is asked for something.

    `when` is before:VERB; or in:attach_hostdev, once libvirt has carried it out and not answered.
    """

    def strike() -> None:
        control.ask(Layout(folder=Path(luck["dir"])).host("kvm01"), luck["op"], luck["fields"])

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "vgpumgr.moment" and arguments[1:] == ("begin", "attach_hostdev"):
            threading.Timer(2, strike).start()

    if "deadline_s" in luck:
        host.STEP_DEADLINE_S = luck["deadline_s"]
    if luck["when"] == "in:attach_hostdev":
        _add_to_host_program("libvirt/definitions.py", _WITHOUT_ANSWER)
        sys.addaudithook(hear)
    else:
        _before_step(luck["when"].removeprefix("before:"), strike)


def _before_step(verb: str | None, do: Callable[[], object]) -> None:
    """Once: before the step of that verb, or before the first."""
    really = executor.Executor.execute

    def execute(self: executor.Executor, step: Step) -> None:
        if verb in (None, step.verb):
            executor.Executor.execute = really  # type: ignore[method-assign]
            do()
        really(self, step)

    executor.Executor.execute = execute  # type: ignore[method-assign]


def _add_to_host_program(end: str, text: bytes) -> None:
    """To the one file whose name ends so. What is made of it is not kept for others."""
    sources = resources.host_sources()
    (name,) = (name for name in sources if name.endswith(end))
    resources.host_sources = lambda: {**sources, name: sources[name] + text}
    sys.dont_write_bytecode = True
    bootstrap._packages.cache_clear()  # the zygote has made it for all
