#!/usr/bin/python
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, documentation and the fallback of vgpu; usually plugins/action/vgpu.py does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vgpu
short_description: Give NVIDIA vGPUs to libvirt VMs, or take them back
version_added: 0.1.0
author:
  - The vgpumgr authors (@vgpumgr)
description:
  - Makes a vGPU on the VM's own hypervisor and puts it into the VM's definition, or takes it out and frees it.
  - A slot that has what is asked is left as it is. One that has another profile is exchanged, as one change, and never gets a
    second device.
  - Nothing in use is touched. A running VM gets its first vGPU at its next start; to change or free one, shut the VM down.
  - With O(vms) many VMs are served by one task. Each hypervisor is reached once, each VM has its own result, and one that fails
    does not stop the others.
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
  - vgpumgr.kvm.vgpumgr
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
options:
  name:
    description:
      - The VM, by its libvirt name or UUID.
      - Exactly one of O(name) and O(vms) is to be given.
    type: str
  slot:
    description: Which of the VM's vGPUs. 1 to 16 letters, digits, C(_) and C(-).
    type: str
    default: vgpu0
  profile:
    description:
      - The vGPU profile, written as V(4Q) (any board that has it), V(A40-4Q) or V(NVIDIA A40-4Q).
      - Wanted where O(state=present).
    type: str
  state:
    description:
      - V(present) gives the slot the profile.
      - V(absent) frees the slot. Where no hypervisor knows the VM this is no change, and a warning.
    type: str
    choices: [present, absent]
    default: present
  host:
    description:
      - The hypervisor where the VM is to be looked for, by its name in the inventory.
      - Where it is left out, it is the one that declares the VM in the inventory, else all are asked.
    type: str
  gpu_id:
    description:
      - The GPU of the hypervisor that the vGPU is to be on, by its PCI address or UUID.
      - Where it is left out, any GPU that has room.
    type: str
  replace:
    description:
      - What becomes of a vGPU that the slot has.
      - V(if-other) exchanges one of another profile, or one that is not on O(gpu_id). V(never) fails then.
      - V(always) also makes a new one where the old one is lost, for example because its GPU is gone.
    type: str
    choices: [never, if-other, always]
    default: if-other
  keep_snapshots:
    description: Free the slot even though snapshots of the VM name the device. A revert to them fails afterwards.
    type: bool
    default: false
  vms:
    description:
      - Many VMs at once. What is to go goes first, since that makes room; the rest keeps its order.
      - What an entry leaves out is taken from the task.
    type: list
    elements: dict
    suboptions:
      name:
        description: As O(name).
        type: str
        required: true
      slot:
        description: As O(slot).
        type: str
      profile:
        description: As O(profile).
        type: str
      state:
        description: As O(state).
        type: str
        choices: [present, absent]
      host:
        description: As O(host).
        type: str
      gpu_id:
        description: As O(gpu_id).
        type: str
      replace:
        description: As O(replace).
        type: str
        choices: [never, if-other, always]
      keep_snapshots:
        description: As O(keep_snapshots).
        type: bool
seealso:
  - module: vgpumgr.kvm.vgpu_info
  - module: vgpumgr.kvm.vgpu_reconcile
"""

EXAMPLES = r"""
- name: Give vm01 a vGPU with 4 GiB
  vgpumgr.kvm.vgpu:
    name: vm01
    profile: 4Q

- name: Take it back
  vgpumgr.kvm.vgpu:
    name: vm01
    state: absent

- name: Give many VMs their vGPUs with one look at each hypervisor
  vgpumgr.kvm.vgpu:
    profile: 4Q
    vms:
      - name: vm01
      - name: vm02
      - name: vm31
        profile: 8C
      - name: vm32
        state: absent
"""

RETURN = r"""
msg:
  description: What became of the VM; for a list, what failed, or how many were changed.
  returned: always
  type: str
  sample: vm01 slot vgpu0 has got A40-4Q on 0000:41:00.4 of kvm01
outcomes:
  description: Every outcome there is, each once. V(done), V(unchanged), V(would_change), or how a slot failed.
  returned: always
  type: list
  elements: str
  sample: [done]
vms:
  description: One row for each slot that was asked for, in that order.
  returned: with O(vms), when the hypervisors were asked
  type: list
  elements: dict
  contains:
    vm:
      description: The VM's name.
      type: str
      sample: vm01
    slot:
      description: The slot.
      type: str
      sample: vgpu0
    host:
      description: Its hypervisor. Null where the VM was not found.
      type: str
      sample: kvm01
    profile:
      description: What was asked. Null for V(absent).
      type: str
      sample: 4Q
    gpu:
      description: PCI address of the GPU. Null where the slot has no vGPU, or that is not known.
      type: str
      sample: "0000:41:00.0"
    device:
      description: PCI address of the virtual function, or the mdev's UUID where there is none.
      type: str
      sample: "0000:41:00.4"
    uuid:
      description: The mdev's UUID. Null where the vGPU is no mdev.
      type: str
      sample: 85c7fd2f-ddf6-5079-9c79-7423c57e32e3
    type:
      description: The driver's vGPU type.
      type: str
      sample: A40-4Q
    outcome:
      description: V(done), V(unchanged), V(would_change), V(failed), V(unreached), V(refused), V(no_capacity), V(busy) or V(usage).
      type: str
      sample: done
    changed:
      description: Whether anything was done, or would be.
      type: bool
      sample: true
    error:
      description: What kind of thing went wrong; RV(vms[].msg) says all. Null where nothing did.
      type: str
    msg:
      description: The same in words.
      type: str
      sample: vm01 slot vgpu0 has got A40-4Q on 0000:41:00.4 of kvm01
vm:
  description: As in RV(vms[].vm).
  returned: with O(name)
  type: str
  sample: vm01
slot:
  description: As in RV(vms[].slot).
  returned: with O(name)
  type: str
  sample: vgpu0
host:
  description: As in RV(vms[].host).
  returned: with O(name)
  type: str
  sample: kvm01
profile:
  description: As in RV(vms[].profile).
  returned: with O(name)
  type: str
  sample: 4Q
gpu:
  description: As in RV(vms[].gpu).
  returned: with O(name)
  type: str
  sample: "0000:41:00.0"
device:
  description: As in RV(vms[].device).
  returned: with O(name)
  type: str
  sample: "0000:41:00.4"
uuid:
  description: As in RV(vms[].uuid).
  returned: with O(name)
  type: str
  sample: 85c7fd2f-ddf6-5079-9c79-7423c57e32e3
type:
  description: As in RV(vms[].type).
  returned: with O(name)
  type: str
  sample: A40-4Q
error:
  description: As in RV(vms[].error).
  returned: with O(name)
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpumgr.kvm.plugins.module_utils import giving, specs
from ansible_collections.vgpumgr.kvm.plugins.module_utils.running_module import run_module


def main():
    run_module(AnsibleModule(supports_check_mode=True, **specs.VGPU), giving.vgpu)


if __name__ == "__main__":
    main()
