#!/usr/bin/python
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, documentation and the fallback of vgpu; usually plugins/action/vgpu.py does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vgpu
short_description: Attach NVIDIA vGPUs to libvirt VMs, or detach them
version_added: 0.1.0
author:
  - The vgpumgr authors (@vgpumgr)
description:
  - Creates a vGPU on the VM's own hypervisor and adds it to the VM's definition, or removes it from there and frees it.
  - A slot that already has what is requested is left alone. A vGPU that was requested otherwise is replaced in one change, and the
    slot never gets a second device.
  - Nothing in use is touched. A running VM gets its first vGPU at its next start; to change or free one, shut the VM down.
  - With O(vms), one task handles many VMs. It connects to each hypervisor once, each VM has its own result, and a VM that fails
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
      - Give exactly one of O(name) and O(vms).
    type: str
  slot:
    description: Which of the VM's vGPUs. 1 to 16 letters, digits, C(_) and C(-).
    type: str
    default: vgpu0
  profile:
    description:
      - Exactly this vGPU type, written as V(4Q) (any board that has it), V(A40-4Q) or V(NVIDIA A40-4Q).
      - If O(state=present), give one of O(profile), O(gpu_memory), O(gpu), O(fgpu) and O(mig_profile).
    type: str
  gpu_memory:
    description: The smallest type with at least this much framebuffer, written as V(4G) or V(512M); V(G) is GiB.
    type: str
  gpu:
    description: The smallest type that is at least this share of one GPU, written as V(0.25).
    type: str
  fgpu:
    description: The same in the site's own unit. The inventory's C(vgpumgr_fgpu_per_gpu) says how many make one GPU of a board.
    type: str
  mig_profile:
    description: The MIG-backed type of this GPU instance, written as V(2g.10gb). Only GPUs in MIG mode have them.
    type: str
  series:
    description: The series of an amount. V(C) if omitted.
    type: str
    choices: [A, B, C, Q]
  usable:
    description: Require that the guest sees the amount, and not only that the type's size is as much.
    type: bool
  max_waste:
    description: Fail if more than this many per cent of the vGPU exceed the amount.
    type: int
  compute:
    description: Use only a GPU whose scheduler has this policy.
    type: str
    choices: [best-effort, equal-share, fixed-share]
  only:
    description: Use only a GPU that is divided in this way.
    type: str
    choices: [mig, time-sliced]
  prefer:
    description: Prefer a GPU that is divided in this way.
    type: str
    choices: [mig, time-sliced]
  param:
    description: Plugin parameters of the vGPU, as in NVIDIA's C(vgpu_params), for example C(enable_uvm=1,frame_rate_limiter=0).
    type: str
  state:
    description:
      - V(present) attaches a vGPU of the profile or amount to the slot.
      - V(absent) frees the slot. If no hypervisor knows the VM, nothing changes and there is a warning.
    type: str
    choices: [present, absent]
    default: present
  host:
    description:
      - The hypervisor to look for the VM on, by its name in the inventory.
      - If omitted, the hypervisor is the one that the inventory declares the VM on, or else all are searched.
    type: str
  gpu_id:
    description:
      - The GPU of the hypervisor to create the vGPU on, by its PCI address or UUID.
      - If omitted, any GPU that has room is used.
    type: str
  policy:
    description:
      - Which of several GPUs takes a new vGPU. V(least-fragmentation), V(pack), V(spread), V(numa), or a policy of the site's own.
      - If omitted, the inventory's C(vgpumgr_policy) decides.
    type: str
  reservation:
    description: Take a place that C(vgpumgr reserve) or C(vgpumgr place --hold) keeps under this name.
    type: str
  wait:
    description:
      - If the hypervisor has no room, note what the slot is to get. C(vgpumgr reconcile) attaches it once there is room.
      - The task then succeeds with a warning, and C(vgpumgr waiting) says why the slot waits.
    type: bool
    default: false
  replace:
    description:
      - What to do with a vGPU that the slot already has.
      - V(if-other) replaces it if something else was requested for it or it is not on O(gpu_id). V(never) fails in that case.
      - V(always) also creates a new vGPU if the old one is lost, for example because its GPU is gone.
    type: str
    choices: [never, if-other, always]
    default: if-other
  keep_snapshots:
    description: Free the slot even if snapshots of the VM name the device. Reverting to them fails afterwards.
    type: bool
    default: false
  even_if_it_will_not_start:
    description:
      - Attach the vGPU even if the VM cannot start with it on this hypervisor as it is. Without it such a VM fails, and nothing is created.
      - The inventory's C(vgpumgr_even_if_it_will_not_start) does the same for all VMs of a hypervisor.
    type: bool
    default: false
  vms:
    description:
      - Many VMs at once. Entries that free a slot come first, since that makes room; the others keep their order.
      - Options that an entry omits are taken from the task; an entry that asks for something itself takes no amount from there.
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
      gpu_memory:
        description: As O(gpu_memory).
        type: str
      gpu:
        description: As O(gpu).
        type: str
      fgpu:
        description: As O(fgpu).
        type: str
      mig_profile:
        description: As O(mig_profile).
        type: str
      series:
        description: As O(series).
        type: str
        choices: [A, B, C, Q]
      usable:
        description: As O(usable).
        type: bool
      max_waste:
        description: As O(max_waste).
        type: int
      compute:
        description: As O(compute).
        type: str
        choices: [best-effort, equal-share, fixed-share]
      only:
        description: As O(only).
        type: str
        choices: [mig, time-sliced]
      prefer:
        description: As O(prefer).
        type: str
        choices: [mig, time-sliced]
      param:
        description: As O(param).
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
      policy:
        description: As O(policy).
        type: str
      reservation:
        description: As O(reservation).
        type: str
      wait:
        description: As O(wait).
        type: bool
      replace:
        description: As O(replace).
        type: str
        choices: [never, if-other, always]
      keep_snapshots:
        description: As O(keep_snapshots).
        type: bool
      even_if_it_will_not_start:
        description: As O(even_if_it_will_not_start).
        type: bool
seealso:
  - module: vgpumgr.kvm.vgpu_info
  - module: vgpumgr.kvm.vgpu_reconcile
"""

EXAMPLES = r"""
- name: Attach a vGPU with 4 GiB to vm01
  vgpumgr.kvm.vgpu:
    name: vm01
    profile: 4Q

- name: Attach the smallest vGPU with at least a fifth of a GPU
  vgpumgr.kvm.vgpu:
    name: vm02
    gpu: 0.2
    max_waste: 25

- name: Detach it
  vgpumgr.kvm.vgpu:
    name: vm01
    state: absent

- name: Attach vGPUs to many VMs, reading each hypervisor once
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
  description: The outcome for the VM; for a list, what failed, and how many slots were changed, or would be in check mode.
  returned: always
  type: str
  sample: vm01 slot vgpu0 now has A40-4Q on 0000:41:00.4 of kvm01
outcomes:
  description: The outcomes that occurred, each once. V(done), V(unchanged), V(would_change), or how a slot failed.
  returned: always
  type: list
  elements: str
  sample: [done]
vms:
  description: One row for each requested slot, in the order of the request.
  returned: with O(vms), when the hypervisors were read
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
      description: Its hypervisor. Null if the VM was not found.
      type: str
      sample: kvm01
    profile:
      description: The requested profile. Null for V(absent), and if an amount was requested.
      type: str
      sample: 4Q
    requested:
      description: All that was requested, as options of the command line. Null for V(absent).
      type: str
      sample: --gpu 0.2
    asked_mib:
      description: What that is in MiB of the board, rounded up. Null if unknown, as the next three are.
      type: int
      sample: 9831
    framebuffer_mib:
      description: The framebuffer of the vGPU's type, in MiB.
      type: int
      sample: 12288
    guest_mib:
      description: How much of it the guest sees at least, in MiB.
      type: int
      sample: 10704
    waste_pct:
      description: How much of the vGPU exceeds what was requested, in per cent.
      type: float
      sample: 20.0
    gpu:
      description: PCI address of the GPU. Null if the slot has no vGPU, or if that is unknown.
      type: str
      sample: "0000:41:00.0"
    device:
      description: PCI address of the virtual function, or the mdev's UUID if there is none.
      type: str
      sample: "0000:41:00.4"
    uuid:
      description: The mdev's UUID. Null if the vGPU is not an mdev.
      type: str
      sample: 85c7fd2f-ddf6-5079-9c79-7423c57e32e3
    type:
      description: The driver's vGPU type.
      type: str
      sample: A40-4Q
    outcome:
      description: V(done), V(unchanged), V(would_change), V(failed), V(unreached), V(refused), V(no_capacity), V(not_ready), V(busy) or V(usage).
      type: str
      sample: done
    changed:
      description: Whether anything changed, or would change.
      type: bool
      sample: true
    error:
      description: The kind of error; RV(vms[].msg) has the details. Null if there was none.
      type: str
    msg:
      description: The outcome in words.
      type: str
      sample: vm01 slot vgpu0 now has A40-4Q on 0000:41:00.4 of kvm01
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
requested:
  description: As in RV(vms[].requested).
  returned: with O(name)
  type: str
  sample: --gpu 0.2
asked_mib:
  description: As in RV(vms[].asked_mib).
  returned: with O(name)
  type: int
  sample: 9831
framebuffer_mib:
  description: As in RV(vms[].framebuffer_mib).
  returned: with O(name)
  type: int
  sample: 12288
guest_mib:
  description: As in RV(vms[].guest_mib).
  returned: with O(name)
  type: int
  sample: 10704
waste_pct:
  description: As in RV(vms[].waste_pct).
  returned: with O(name)
  type: float
  sample: 20.0
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
