#!/usr/bin/python
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, documentation and the fallback of vgpu_info; usually plugins/action/vgpu_info.py does the work."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vgpu_info
short_description: Report which VMs have which NVIDIA vGPUs
version_added: 0.1.0
author:
  - The vgpumgr authors (@vgpumgr)
description:
  - Reads the hypervisors and reports what one VM or every VM has been promised (its claims) and what it has (its vGPUs). It
    changes nothing.
  - A hypervisor that cannot be read makes the task fail, since its vGPUs are unknown. The result still includes those of the
    others.
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
  - vgpumgr.kvm.vgpumgr
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
options:
  name:
    description: One VM, by its libvirt name or UUID. If omitted, all VMs of every hypervisor.
    type: str
  host:
    description: Only this hypervisor, by its name in the inventory.
    type: str
seealso:
  - module: vgpumgr.kvm.vgpu
"""

EXAMPLES = r"""
- name: Read one VM
  vgpumgr.kvm.vgpu_info:
    name: vm01
  register: found

- name: Show its vGPUs
  ansible.builtin.debug:
    msg: "{{ found.vms[0].vgpus | map(attribute='type_name') }}"

- name: Read every hypervisor
  vgpumgr.kvm.vgpu_info:
  register: fleet
"""

RETURN = r"""
vms:
  description: The VM, or all VMs that have a claim or a vGPU.
  returned: when the hypervisors were read
  type: list
  elements: dict
  contains:
    name:
      description: Its libvirt name.
      type: str
      sample: vm01
    uuid:
      description: Its libvirt UUID.
      type: str
      sample: 1bcf1c9d-4a56-4bb6-8b3a-0b7d4a1c0a01
    host:
      description: Its hypervisor.
      type: str
      sample: kvm01
    state:
      description: V(running) or V(shut off).
      type: str
      sample: shut off
    claims:
      description: Its claims, by slot, with the keys slot, generation, from, state, by, at, requested, type_name, gpu_uuid, parent, uuid.
      type: list
      elements: dict
    vgpus:
      description: The rows of RV(vgpus) that belong to it.
      type: list
      elements: dict
vgpus:
  description:
    - Every vGPU, with the keys of C(vgpumgr list -o json). Foreign ones are included unless O(name) is given.
  returned: when the hypervisors were read
  type: list
  elements: dict
  contains:
    vm:
      description: The VM's name. Null for a foreign vGPU that no definition names.
      type: str
      sample: vm01
    slot:
      description: The slot.
      type: str
      sample: vgpu0
    host:
      description: The hypervisor.
      type: str
      sample: kvm01
    gpu:
      description: PCI address of the GPU.
      type: str
      sample: "0000:41:00.0"
    type_name:
      description: The driver's vGPU type.
      type: str
      sample: A40-4Q
    state:
      description: V(pending), V(made), V(bound), V(in_use), V(pending_restart), V(gone), V(lazy), V(lost), V(foreign) or V(unknown).
      type: str
      sample: bound
unread:
  description: The hypervisors that could not be read, with the keys host, error, message, hint and details.
  returned: when the hypervisors were read
  type: list
  elements: dict
msg:
  description: Why they could not be read.
  returned: on failure
  type: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.vgpumgr.kvm.plugins.module_utils import looking, specs
from ansible_collections.vgpumgr.kvm.plugins.module_utils.running_module import run_module


def main():
    run_module(AnsibleModule(supports_check_mode=True, **specs.VGPU_INFO), looking.vgpu_info)


if __name__ == "__main__":
    main()
