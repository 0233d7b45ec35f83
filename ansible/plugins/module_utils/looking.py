# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module vgpu_info: the claims and vGPUs on the hypervisors."""

from __future__ import annotations


def vgpu_info(run):
    """Module vgpu_info."""
    from vgpumgr.controller import report
    from vgpumgr.core.report import listing
    from vgpumgr.documents import common
    from vgpumgr.documents import vms as documents
    from vgpumgr.documents.error import document, text
    from vgpumgr.wording import joined

    context = run.context()
    name, host = run.params["name"], run.params["host"]
    if name is not None:
        found = report.show_vm(context, str(name), None if host is None else str(host))
        seen, errors = [(found.view, [found.domain])], [(found.view.snapshot.host, error) for error in found.errors]
        run.warnings += [row.text for row in found.findings]
    else:
        fleet = report.observe_fleet(context, [] if host is None else [str(host)])
        seen, errors = [(view, view.domains) for view in fleet.views], list(fleet.errors)
    rows = {view.snapshot.host: listing.rows(view) for view, _domains in seen}
    vms = [
        documents.vm(host, domain, [row for row in rows[host] if row.vm_uuid == domain.uuid])
        for host, domains in ((view.snapshot.host, domains) for view, domains in seen)
        for domain in domains
    ]
    only = {vm["uuid"] for vm in vms}
    result = {
        "changed": False,
        "failed": bool(errors),
        "vms": vms if name is not None else [vm for vm in vms if vm["claims"] or vm["vgpus"]],
        "vgpus": [common.plain(row) for part in rows.values() for row in part if name is None or row.vm_uuid in only],
        "unread": [{"host": host, **document(error)} for host, error in errors],
    }
    if errors:
        result["msg"] = joined("\n", [text(error) for _host, error in errors])
    return result
