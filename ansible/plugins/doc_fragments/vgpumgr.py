# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all modules of the collection have in common."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  inventory:
    description:
      - The inventory that vgpumgr reads, which says how the hypervisors are reached. A folder of plain Ansible YAML, or one such file.
      - Where it is left out, and E(VGPUMGR_INVENTORY) is not set, it is the one folder or YAML file that Ansible itself was
        given with C(-i). Several, or one of another kind (a script, a list of hosts), are refused; only where Ansible was given
        none, vgpumgr's usual places count.
    type: path
requirements:
  - vgpumgr >= 0.1.0, in the Python that Ansible itself runs in
notes:
  - The work is done by an action plugin, inside Ansible's own process on the control node. Neither C(ansible_python_interpreter)
    nor the target's connection, become or environment matter, and C(delegate_to) changes nothing.
  - The hypervisors are reached by vgpumgr itself, over SSH as root, as its inventory says.
attributes:
  platform:
    support: full
    platforms: posix
  action_group:
    description: Takes the defaults that C(module_defaults) gives to the group.
    support: full
    membership:
      - vgpumgr.kvm.vgpumgr
"""
