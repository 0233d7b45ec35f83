"""A callback for the tests: every result of a run as a line of JSON, in the file that RESULTS_FILE names."""

from __future__ import annotations

import json
import os
from typing import Any

from ansible.plugins.callback import CallbackBase  # type: ignore[import-untyped]  # ansible-core has no types

DOCUMENTATION = """
name: results_to_file
type: aggregate
short_description: every result as a line of JSON
description: For vgpumgr's tests.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]  # the same
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "results_to_file"
    CALLBACK_NEEDS_ENABLED = True

    def _tell(self, kind: str, what: dict[str, Any]) -> None:
        with open(os.environ["RESULTS_FILE"], "a", encoding="utf-8") as stream:  # noqa: PTH123 -- Ansible's process
            stream.write(json.dumps({"kind": kind, **what}, default=str) + "\n")

    def _result(self, kind: str, result: Any) -> None:
        self._tell(kind, {"target": result._host.name, "result": result._result})

    def v2_runner_on_ok(self, result: Any) -> None:
        if not result._task.loop:
            self._result("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        if not result._task.loop:
            self._result("failed", result)

    def v2_runner_item_on_ok(self, result: Any) -> None:
        self._result("ok", result)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        self._result("failed", result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        self._tell("stats", {"stats": {host: stats.summarize(host) for host in stats.processed}})
