# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all modules of the collection have in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  inventory:
    description:
      - The inventory that vgpumgr reads, which says how to reach the hypervisors. It is a directory of plain Ansible YAML, or one
        such file.
      - If it is omitted and E(VGPUMGR_INVENTORY) is not set, the one directory or YAML file that Ansible itself was given with
        C(-i) is used. Several inventories, or one of another kind (a script, a list of hosts), are refused. vgpumgr's usual
        places are searched only if Ansible was given no inventory.
    type: path
  group:
    description:
      - The group whose hosts are the hypervisors. If it is omitted, E(VGPUMGR_GROUP) or the inventory says it (C(vgpumgr_group), or
        a group C(hypervisors)).
    type: str
  timeout:
    description:
      - At most so many seconds for each stage of a connection, and for a hypervisor that another run keeps busy. If it is omitted,
        each stage has a limit of its own, and a busy hypervisor 60 seconds.
    type: int
requirements:
  - vgpumgr >= 0.1.0, in the same Python environment as Ansible itself
notes:
  - An action plugin does the work, inside Ansible's own process on the control node. C(ansible_python_interpreter) and the
    target's connection, become and environment do not matter, and C(delegate_to) has no effect.
  - vgpumgr itself connects to the hypervisors, over SSH as root, as its inventory says.
attributes:
  platform:
    support: full
    platforms: posix
  action_group:
    description: Uses the defaults that C(module_defaults) sets for the group.
    support: full
    membership:
      - vgpumgr.kvm.vgpumgr
"""
