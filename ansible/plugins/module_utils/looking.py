# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module vgpu_info: what is on the hypervisors."""

from __future__ import annotations


def vgpu_info(run):
    """Module vgpu_info."""
    from vgpumgr.controller import documents, report

    context = run.context()
    name, host = run.params["name"], run.params["host"]
    if name is not None:
        found = report.show_vm(context, str(name), None if host is None else str(host))
        seen, errors = [(found.view, [found.domain])], [(found.view.snapshot.host, error) for error in found.errors]
        run.warnings += [row.text for row in found.findings]
    else:
        fleet = report.observe_fleet(context, [] if host is None else [str(host)])
        seen, errors = [(view, view.domains) for view in fleet.views], list(fleet.errors)
    vms = [_vm(view, domain) for view, domains in seen for domain in domains]
    result = {
        "changed": False,
        "failed": bool(errors),
        "vms": vms if name is not None else [vm for vm in vms if vm["claims"] or vm["vgpus"]],
        "vgpus": _rows(seen, [domain.uuid for _view, domains in seen for domain in domains] if name else None),
        "unread": [{"host": host, **documents.of_error(error)} for host, error in errors],
    }
    if errors:
        result["msg"] = "\n".join(documents.error_text(error) for _host, error in errors)
    return result


def _rows(seen, only):
    from dataclasses import asdict

    from vgpumgr.core.report import listing

    return [asdict(row) for view, _domains in seen for row in listing.rows(view) if only is None or row.vm_uuid in only]


def _vm(view, domain):
    from vgpumgr.controller import documents

    return {
        "name": domain.name,
        "uuid": domain.uuid,
        "host": view.snapshot.host,
        "state": domain.condition,
        "claims": [documents.of_claim(claim) for claim in (domain.claims.claims if domain.claims else ())],
        "vgpus": _rows([(view, None)], [domain.uuid]),
    }
