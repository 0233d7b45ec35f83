# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns a task's options into calls of vgpumgr.controller, and return values into the task's result; parses no text.

The caller checks library.why_not first. A refusal or an unreachable host is a failed result, never an exception.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ansible_collections.vgpumgr.kvm.plugins.module_utils import spelling

if TYPE_CHECKING:
    from collections.abc import Callable


_NONE_GIVEN = (
    "/etc/ansible/hosts"  # Ansible's default if neither -i, its environment nor its settings name an inventory
)


def _is_read(source):
    """Whether vgpumgr reads such an inventory: a directory, or a file that is no script."""
    return os.path.isdir(source) or (os.path.isfile(source) and not os.access(source, os.X_OK))


@dataclass
class Run:
    """One task: its options, its modes, and where its progress goes. `sources`: what Ansible was given with -i.

    `mistakes`: entries of a list that are not among the options, as they break the specification (entries.sound).
    """

    params: dict
    check: bool
    diff: bool
    tell: Callable[[str], None] = print
    sources: tuple = ()
    mistakes: dict = field(default_factory=dict)
    warnings: list = field(default_factory=list)

    def context(self):
        """The vgpumgr context for the inventory of this task."""
        from vgpumgr.controller import environment

        paths = [self.params["inventory"]] if self.params["inventory"] else self._given()
        inventory = environment.load_inventory(paths, self.params["group"])
        return environment.make_context(
            inventory,
            check=self.check,
            progress=self.tell,
            warn=self.warnings.append,
            timeout=self.params["timeout"],
        )

    def _given(self):
        """The inventories that Ansible was given, in its order; none if it was given none.

        Raises UsageError for a kind that vgpumgr does not read (a script, a list of hosts). It does not fall back to
        the usual places, because an inventory there can be another site's.
        """
        from vgpumgr.errors import UsageError

        sources = [str(source) for source in self.sources if str(source) != _NONE_GIVEN]
        unread = [source for source in sources if not _is_read(source)]
        if unread:
            raise UsageError(
                f"vgpumgr does not read {', '.join(unread)}, which Ansible was given: neither a directory nor a YAML or INI file",
                hint="name its inventory in the task, inventory: DIR, or in VGPUMGR_INVENTORY",
            )
        return [os.path.abspath(source) for source in sources]


def caught(work, run):
    """The work's result, with the run's warnings; a failed result if vgpumgr raised one of its errors."""
    from vgpumgr.documents.error import text
    from vgpumgr.errors import VgpumgrError

    try:
        result = work(run)
    except VgpumgrError as error:
        result = {
            "failed": True,
            "changed": False,
            "msg": text(error),
            "outcomes": [error.outcome.value],
            "error": type(error).__name__,
        }
    if run.warnings:
        result["warnings"] = list(dict.fromkeys(run.warnings))
    return _cleaned(spelling.in_words_of_ansible(result))


def _cleaned(value):
    """The value with control characters escaped: a hypervisor's text must not move Ansible's cursor."""
    from vgpumgr.cli.text.words import visible

    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item) for item in value]
    return value


def diff_of(what, before, after):
    """Two values in the form in which Ansible shows a difference: as YAML."""
    import yaml

    def text(value):
        return yaml.safe_dump(value, sort_keys=False)

    return {"before_header": what, "after_header": what, "before": text(before), "after": text(after)}
