# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every action plugin of the collection does: the module's work, inside Ansible's own process."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible.plugins.callback import CallbackBase
from ansible_collections.vgpumgr.kvm.plugins.module_utils import entries, library, running


class VgpumgrAction(ActionBase):
    """`SPEC` is the module's own; `WORK` gets a running.Run and returns the task's result."""

    _requires_connection = False
    _supports_check_mode = True
    _supports_diff = True
    SPEC: dict
    WORK: object

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        self._task.args, mistakes = entries.sound(self.SPEC, self._task.args)
        _checked, params = self.validate_argument_spec(**self.SPEC)
        task_vars = task_vars or {}
        run = running.Run(
            params=params,
            check=bool(self._task.check_mode),
            diff=bool(self._task.diff),
            tell=self._display.vvv,
            sources=tuple(task_vars.get("ansible_inventory_sources") or ()),
            mistakes=mistakes,
        )
        result.update(library.why_not() or running.caught(type(self).WORK, run))
        if run.diff and result.get("failed") and result.get("diff") and not self._task.no_log:
            self._show(result["diff"])
        return result

    def _show(self, diff):
        """Ansible shows the differences of a task that succeeds; this shows those of one that failed, as Ansible would.

        On stderr, where Ansible tells the failure: on stdout a callback may be writing JSON.
        """
        text = CallbackBase()._get_diff([dict(one) for one in diff])
        self._display.display(text.rstrip("\n"), stderr=True)
