#!/usr/bin/python
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, documentation and the fallback of vgpu_reconcile; usually plugins/action/vgpu_reconcile.py does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vgpu_reconcile
short_description: Bring every hypervisor to what the inventory declares
version_added: 0.1.0
author:
  - The vgpumgr authors (@vgpumgr)
description:
  - Does what C(vgpumgr reconcile) does. Every VM gets what the inventory declares or what it was once given, GPUs get their
    schedulers, and what is no longer declared is taken back.
  - There is no prompt, so a plan that takes anything away is refused unless O(confirm) or O(confirm_destroys) says that it may.
  - A hypervisor that cannot be reached makes the task fail, after the others were served.
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
  - vgpumgr.kvm.vgpumgr
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  limit:
    description: These hypervisors only, by names or shell patterns of the inventory. All where it is empty.
    type: list
    elements: str
    default: []
  confirm:
    description:
      - What is no longer declared may be taken away, and what has another profile exchanged.
      - More than 30 per cent of a hypervisor's vGPUs, or of all, are refused all the same, and so is every vGPU that the inventory
        gave on a hypervisor, or what a file or a group declared that is lost; see O(confirm_destroys).
    type: bool
    default: false
  confirm_destroys:
    description: Let a plan pass that destroys exactly so many vGPUs, however large a share that is. Means O(confirm), too.
    type: int
  deadline:
    description: How many seconds each hypervisor may take. One that takes longer is left behind and named.
    type: int
    default: 300
seealso:
  - module: vgpumgr.kvm.vgpu
"""

EXAMPLES = r"""
- name: Keep what is declared
  vgpumgr.kvm.vgpu_reconcile:

- name: The same where VMs have left the inventory
  vgpumgr.kvm.vgpu_reconcile:
    limit: [kvm01, "kvm1*"]
    confirm: true
"""

RETURN = r"""
msg:
  description: How many jobs were changed, and what went wrong.
  returned: always
  type: str
  sample: 2 of 8 jobs changed
outcomes:
  description: Every outcome there is, each once. V(done), V(unchanged), V(would_change), or how a job failed.
  returned: always
  type: list
  elements: str
  sample: [done]
drift:
  description: What differed, with the keys host, vm, slot, gpu, field, wanted, found and cause.
  returned: when the hypervisors were asked
  type: list
  elements: dict
plan:
  description: The steps that mend it, as C(vgpumgr plan -o json) has them.
  returned: when the hypervisors were asked
  type: list
  elements: dict
result:
  description: For each hypervisor its jobs, and what became of them.
  returned: when the hypervisors were asked
  type: dict
errors:
  description: What went wrong with whole hypervisors, with the keys host, error, message, hint and details.
  returned: when the hypervisors were asked
  type: list
  elements: dict
findings:
  description: What a person should know, with the keys kind, host, vm, slot and text.
  returned: when the hypervisors were asked
  type: list
  elements: dict
fingerprint:
  description: A hash of what the plan read.
  returned: when the hypervisors were asked
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpumgr.kvm.plugins.module_utils import reconciling, specs
from ansible_collections.vgpumgr.kvm.plugins.module_utils.running_module import run_module


def main():
    run_module(AnsibleModule(supports_check_mode=True, **specs.VGPU_RECONCILE), reconciling.vgpu_reconcile)


if __name__ == "__main__":
    main()
