# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""vgpu_info, run in Ansible's own process, whatever interpreter the target has."""

from __future__ import annotations

from ansible_collections.vgpumgr.kvm.plugins.module_utils import looking, specs
from ansible_collections.vgpumgr.kvm.plugins.plugin_utils.action import VgpumgrAction


class ActionModule(VgpumgrAction):
    SPEC = specs.VGPU_INFO
    WORK = staticmethod(looking.vgpu_info)
