# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module vgpu_info: the claims and vGPUs on the hypervisors."""

from __future__ import annotations


def vgpu_info(run):
    """Module vgpu_info."""
    from vgpumgr.documents.error import document, text
    from vgpumgr.wording import joined

    name, host = (None if run.params[key] is None else str(run.params[key]) for key in ("name", "host"))
    vms, vgpus, errors = _of_fleet(run.context(), host) if name is None else _of_vm(run, name, host)
    result = {
        "changed": False,
        "failed": bool(errors),
        "vms": vms,
        "vgpus": vgpus,
        "unread": [{"host": host, **document(error)} for host, error in errors],
    }
    if errors:
        result["msg"] = joined("\n", [text(error) for _host, error in errors])
    return result


def _of_vm(run, name, host):
    """One VM, its vGPUs, and the hosts that could not be asked for it."""
    from vgpumgr.controller import report

    result = report.show_vm(run.context(), name, host)
    run.warnings += [row.text for row in result.findings]
    vms, rows = _rows(result.view, [result.domain])
    vgpus = [row for row in rows if row["vm_uuid"] == vms[0]["uuid"]]
    return vms, vgpus, [(result.view.snapshot.host, error) for error in result.errors]


def _of_fleet(context, host):
    """Every VM that has or claims a vGPU, all vGPUs, and the hosts that could not be read."""
    from vgpumgr.controller import report

    fleet = report.observe_fleet(context, [] if host is None else [host])
    parts = [_rows(view, view.domains) for view in fleet.views]
    vms = [vm for of_host, _rows in parts for vm in of_host if vm["claims"] or vm["vgpus"]]
    return vms, [row for _vms, rows in parts for row in rows], list(fleet.errors)


def _rows(view, domains):
    """These VMs of a host, and all its vGPUs."""
    from vgpumgr.core.report import listing
    from vgpumgr.documents import common
    from vgpumgr.documents import vms as documents

    rows = listing.rows(view)
    vms = [documents.vm(view.snapshot.host, vm, [row for row in rows if row.vm_uuid == vm.uuid]) for vm in domains]
    return vms, [common.plain(row) for row in rows]
