#!/usr/bin/python
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, documentation and the fallback of vgpu_reconcile; usually plugins/action/vgpu_reconcile.py does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vgpu_reconcile
short_description: Reconcile every hypervisor with the inventory
version_added: 0.1.0
author:
  - The vgpumgr authors (@vgpumgr)
description:
  - Does the same as C(vgpumgr reconcile). Every VM gets the vGPUs that the inventory declares or that were attached earlier,
    GPUs get their modes and schedulers, and vGPUs that are no longer declared are removed.
  - There is no prompt, so a plan that removes anything is refused unless O(confirm) or O(confirm_destroys) allows it.
  - A hypervisor that cannot be reached makes the task fail, after the others are reconciled.
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
    description: Only these hypervisors, by names, groups or patterns as in ansible-playbook --limit. All if it is empty.
    type: list
    elements: str
    default: []
  confirm:
    description:
      - Allow removing vGPUs that are no longer declared, and replacing those with another profile.
      - A plan is still refused if it removes more than 30 per cent of a hypervisor's vGPUs or of all, every vGPU that the
        inventory declared on a hypervisor, or what a lost file or group declared; see O(confirm_destroys).
    type: bool
    default: false
  confirm_destroys:
    description: Allow a plan that destroys at most this many vGPUs, however large a share that is. Implies O(confirm).
    type: int
  deadline:
    description: Time limit for each hypervisor, in seconds. One that exceeds it is skipped and reported.
    type: int
    default: 300
  strict:
    description:
      - Fail also where something only waits until a GPU or VM is no longer in use.
      - Otherwise that is the outcome V(waiting) of its job, and a warning.
    type: bool
    default: false
  start:
    description: Also start the VMs with vGPUs of vgpumgr that are to start with their hypervisor, and whose last start failed.
    type: bool
    default: false
seealso:
  - module: vgpumgr.kvm.vgpu
"""

EXAMPLES = r"""
- name: Reconcile with the inventory
  vgpumgr.kvm.vgpu_reconcile:

- name: Also remove vGPUs of VMs that are no longer in the inventory
  vgpumgr.kvm.vgpu_reconcile:
    limit: [kvm01, "kvm1*"]
    confirm: true
"""

RETURN = r"""
msg:
  description: How many jobs were changed, or would be in check mode, and what went wrong.
  returned: always
  type: str
  sample: 2 of 8 jobs changed
outcomes:
  description: The outcomes that occurred, each once. V(done), V(unchanged), V(would_change), V(waiting), or how a job failed.
  returned: always
  type: list
  elements: str
  sample: [done]
drift:
  description: What differed, with the keys host, vm, slot, gpu, field, wanted, found and cause.
  returned: when the hypervisors were read
  type: list
  elements: dict
plan:
  description: The steps that correct it, as in C(vgpumgr plan -o json).
  returned: when the hypervisors were read
  type: list
  elements: dict
result:
  description: The jobs of each hypervisor, and their outcomes.
  returned: when the hypervisors were read
  type: dict
errors:
  description: What went wrong with whole hypervisors, with the keys host, error, message, hint and details.
  returned: when the hypervisors were read
  type: list
  elements: dict
findings:
  description: Notable conditions, with the keys kind, host, vm, slot and text.
  returned: when the hypervisors were read
  type: list
  elements: dict
fingerprint:
  description: A hash of the state that the plan is based on.
  returned: when the hypervisors were read
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpumgr.kvm.plugins.module_utils import reconciling, specs
from ansible_collections.vgpumgr.kvm.plugins.module_utils.running_module import run_module


def main():
    run_module(AnsibleModule(supports_check_mode=True, **specs.VGPU_RECONCILE), reconciling.vgpu_reconcile)


if __name__ == "__main__":
    main()
