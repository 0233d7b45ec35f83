# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The body of every module, which runs if there is no action plugin (an old runner, a copy of the module alone)."""

from __future__ import annotations

from ansible_collections.vgpumgr.kvm.plugins.module_utils import library, running


def run_module(module, work):
    """Do the work with an AnsibleModule's options, and end the module."""
    result = library.why_not()
    if result is None:
        run = running.Run(params=module.params, check=module.check_mode, diff=module._diff, tell=module.debug)
        result = running.caught(work, run)
    for warning in result.pop("warnings", ()):
        module.warn(warning)
    if result.pop("failed", False):
        module.fail_json(**result)
    module.exit_json(**result)
