"""Dashboards for Grafana, made from a short description: `vgpumgr export dashboard NAME` prints one.

They are in Grafana's classic JSON with schemaVersion 39, which Grafana 11 and later import. The data source is a
variable of the dashboard and there are no `__inputs`, so that a dashboard may be imported in the browser or provisioned
as a file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SCHEMA_VERSION: Final = 39
_COLUMNS: Final = 24
_SIZES: Final[Mapping[str, tuple[int, int]]] = {"stat": (4, 4), "timeseries": (12, 8), "table": (24, 8)}
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}

Kind = Literal["stat", "timeseries", "table"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. `unit`: Grafana's name of it. `legend`: a template of labels; of a table, none.

    `warns_from`: the value from which a rule of alerts.yml warns; None: there is no such rule.
    """

    title: str
    query: str
    kind: Kind = "timeseries"
    unit: str = "short"
    legend: str = ""
    warns_from: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A page of panels. `variables`: each variable's name, and the query for its values."""

    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()


_HOST: Final = ("host", "label_values(vgpumgr_host_up, host)")
_VM: Final = ("vm", 'label_values(vgpumgr_vgpu_info{host=~"$host"}, vm)')
_ON: Final = '{host=~"$host"}'
_OF: Final = '{host=~"$host", vm=~"$vm"}'
_KEY: Final = "on (host, gpu, vm, slot)"
_OWNER: Final = ("owner", "label_values(vgpumgr_vm_owner_info, owner)")
_SLOT: Final = "{{vm}} {{slot}}"
_GPU: Final = "{{host}} {{gpu}}"
_NAME: Final = "{{owner}}"
_SHARE: Final = "percentunit"
_MEAN: Final = "rate(vgpumgr_vgpu_sm_busy_seconds_total{0}[{1}]) / rate(vgpumgr_vgpu_observed_seconds_total{0}[{1}])"
_ALLOCATED: Final = (
    "sum by ({0}) (vgpumgr_vgpu_framebuffer_size_bytes{1}) / sum by ({0}) (vgpumgr_gpu_framebuffer_size_bytes{1})"
)


def _stat(title: str, query: str, unit: str = "short", legend: str = "", warns_from: float | None = None) -> Panel:
    return Panel(title=title, query=query, kind="stat", unit=unit, legend=legend, warns_from=warns_from)


def _line(title: str, query: str, unit: str, legend: str, warns_from: float | None = None) -> Panel:
    return Panel(title=title, query=query, unit=unit, legend=legend, warns_from=warns_from)


def _by_owner(how: str, metric: str) -> str:
    """The query that adds up each owner's series of a metric that has the labels host and vm. `how`: sum or count."""
    return f'{how} by (owner) ({metric} * on (host, vm) group_left (owner) vgpumgr_vm_owner_info{{owner=~"$owner"}})'


def _table(title: str, query: str) -> Panel:
    return Panel(title=title, query=query, kind="table")


_FLEET: Final = Dashboard(
    title="vgpumgr: fleet",
    panels=(
        _stat("Hosts", "count(vgpumgr_host_up)"),
        _stat("Hosts not read", "sum(1 - vgpumgr_host_up)", warns_from=1),
        _stat("GPUs", "count(vgpumgr_gpu_info)"),
        _stat("vGPUs", "sum(vgpumgr_gpu_vgpus)"),
        _stat("vGPUs with a running VM", "sum(vgpumgr_gpu_vgpus_running)"),
        _stat("Hosts that the last run did not reach", "sum(1 - vgpumgr_host_planned)", warns_from=1),
        _stat("Not as declared", "sum(vgpumgr_host_drift)", warns_from=1),
        _stat("Waiting until a GPU or VM is idle", "sum(vgpumgr_host_waiting)"),
        _stat(
            "Time since the last plan or reconcile",
            "time() - max(vgpumgr_run_last_timestamp_seconds)",
            unit="s",
            warns_from=93600,
        ),
        _stat("Exit code of the last run", "vgpumgr_run_last_exit_code", legend="{{run}}"),
        _stat("Duration of the last run", "vgpumgr_run_last_duration_seconds", unit="s", legend="{{run}}"),
        _stat("Age of the newest round", "time() - max(vgpumgr_collect_last_timestamp_seconds)", "s", warns_from=900),
        _line("GPU use by host", "avg by (host) (vgpumgr_gpu_sm_utilization_ratio)", _SHARE, "{{host}}"),
        _line("Framebuffer allocated to vGPUs", _ALLOCATED.format("host", ""), _SHARE, "{{host}}"),
        _line("vGPUs by type", "count by (type_name) (vgpumgr_vgpu_info)", "short", "{{type_name}}"),
        _line(
            "How many more fit, by type in use",
            "sum by (type_name) (vgpumgr_host_fits) and on (type_name) vgpumgr_vgpu_info",
            "short",
            "{{type_name}}",
        ),
        _line("Slots waiting for room, by request", "sum by (asked) (vgpumgr_host_without_room)", "short", "{{asked}}"),
    ),
)

_ONE_HOST: Final = Dashboard(
    title="vgpumgr: host",
    variables=(_HOST,),
    panels=(
        _stat("Read in the last round", f"vgpumgr_host_up{_ON}", legend="{{host}}"),
        _stat("Not as declared", f"vgpumgr_host_drift{_ON}", legend="{{host}}", warns_from=1),
        _stat("Waiting until a GPU or VM is idle", f"vgpumgr_host_waiting{_ON}", legend="{{host}}"),
        _stat("NVML is silent", f"vgpumgr_host_nvml_silent{_ON}", legend="{{host}}", warns_from=1),
        _stat(
            "Age of the last plan or reconcile", f"time() - vgpumgr_host_plan_timestamp_seconds{_ON}", "s", "{{host}}"
        ),
        _stat("Duration of the last round", f"vgpumgr_host_sample_duration_seconds{_ON}", "s", "{{host}}"),
        _line("GPU use", f"vgpumgr_gpu_sm_utilization_ratio{_ON}", _SHARE, _GPU),
        _line("Memory use", f"vgpumgr_gpu_memory_utilization_ratio{_ON}", _SHARE, _GPU),
        _line("Framebuffer in use", f"vgpumgr_gpu_framebuffer_used_bytes{_ON}", "bytes", _GPU),
        _line("Framebuffer allocated", _ALLOCATED.format("host, gpu", _ON), _SHARE, _GPU),
        _line("GPU use by VM", f"sum by (vm) (vgpumgr_vgpu_sm_utilization_ratio{_ON})", _SHARE, "{{vm}}"),
        _line("vGPUs", f"vgpumgr_gpu_vgpus{_ON}", "short", _GPU),
        _line("Findings of the last run", f"vgpumgr_host_findings{_ON}", "short", "{{host}} {{kind}}"),
        _line("Refused or failed in the last run", f"vgpumgr_host_refused{_ON}", "short", "{{host}} {{error}}"),
        _table("GPUs", f"vgpumgr_gpu_info{_ON}"),
        _table("How many more fit, each type alone", f"vgpumgr_host_fits{_ON}"),
    ),
)

_USED: Final = f"vgpumgr_vgpu_framebuffer_used_bytes{_OF}"
_ONE_VM: Final = Dashboard(
    title="vgpumgr: VM",
    variables=(_HOST, _VM),
    panels=(
        _line("GPU use", f"vgpumgr_vgpu_sm_utilization_ratio{_OF}", _SHARE, _SLOT),
        _line(
            "Use relative to the share of its type and policy",
            f"vgpumgr_vgpu_sm_utilization_ratio{_OF} / {_KEY} vgpumgr_vgpu_share_entitled_ratio{_OF}",
            _SHARE,
            _SLOT,
        ),
        _line("Mean GPU use", _MEAN.format(_OF, "$__rate_interval"), _SHARE, _SLOT),
        _line("Memory use", f"vgpumgr_vgpu_memory_utilization_ratio{_OF}", _SHARE, _SLOT),
        _line("Encoder use", f"vgpumgr_vgpu_encoder_utilization_ratio{_OF}", _SHARE, _SLOT),
        _line("Decoder use", f"vgpumgr_vgpu_decoder_utilization_ratio{_OF}", _SHARE, _SLOT),
        _line("Framebuffer in use", _USED, "bytes", _SLOT),
        _line(
            "Framebuffer in use, as a share of the vGPU's",
            f"{_USED} / {_KEY} vgpumgr_vgpu_framebuffer_size_bytes{_OF}",
            _SHARE,
            _SLOT,
            warns_from=0.95,
        ),
        _line("The VM runs", f"vgpumgr_vgpu_running{_OF}", "bool", _SLOT),
        _line(
            "Time that is measured", f"rate(vgpumgr_vgpu_observed_seconds_total{_OF}[$__rate_interval])", _SHARE, _SLOT
        ),
        _table("vGPUs", f"vgpumgr_vgpu_info{_OF}"),
    ),
)

_OWNERS: Final = Dashboard(
    title="vgpumgr: owners",
    variables=(_OWNER,),
    panels=(
        _stat("Owners", "count(count by (owner) (vgpumgr_vm_owner_info))"),
        _stat(
            "vGPUs whose VM has no owner",
            "count(vgpumgr_vgpu_info unless on (host, vm) vgpumgr_vm_owner_info) or vector(0)",
        ),
        _stat(
            "GPU hours used in the chosen time",
            _by_owner("sum", "increase(vgpumgr_vgpu_sm_busy_seconds_total[$__range]) / 3600"),
            "h",
            _NAME,
        ),
        _stat(
            "vGPUs that run and used less than 1 % in the chosen time",
            _by_owner("count", f"({_MEAN.format('', '$__range')} < 0.01 and vgpumgr_vgpu_running == 1)"),
            legend=_NAME,
        ),
        _line("vGPUs", _by_owner("count", "vgpumgr_vgpu_info"), "short", _NAME),
        _line("GPU use, in whole GPUs", _by_owner("sum", "vgpumgr_vgpu_sm_utilization_ratio"), "short", _NAME),
        _line("Share promised, in whole GPUs", _by_owner("sum", "vgpumgr_vgpu_share_entitled_ratio"), "short", _NAME),
        _line("Framebuffer allocated", _by_owner("sum", "vgpumgr_vgpu_framebuffer_size_bytes"), "bytes", _NAME),
        _line("Framebuffer in use", _by_owner("sum", "vgpumgr_vgpu_framebuffer_used_bytes"), "bytes", _NAME),
        _table("VMs and their owners", 'vgpumgr_vm_owner_info{owner=~"$owner"}'),
    ),
)

DASHBOARDS: Final[Mapping[str, Dashboard]] = {"fleet": _FLEET, "host": _ONE_HOST, "vm": _ONE_VM, "owners": _OWNERS}


def classic(name: str) -> dict[str, Any]:
    """The dashboard of this name in Grafana's classic JSON. Raises KeyError if DASHBOARDS has none."""
    dashboard = DASHBOARDS[name]
    return {
        "id": None,
        "uid": f"vgpumgr-{name}",
        "title": dashboard.title,
        "tags": ["vgpumgr"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "timezone": "",
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *(_variable(*one) for one in dashboard.variables)]},
        "panels": list(_placed(dashboard.panels)),
    }


def text(name: str) -> str:
    """The same as the text of a file. Raises KeyError if DASHBOARDS has none of this name."""
    return json.dumps(classic(name), indent=2)


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,  # when the time range changes
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _placed(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """The panels from left to right; a row ends where the next panel has no room in it, or is of another kind."""
    x = y = row_height = 0
    before = None
    for number, panel in enumerate(panels, start=1):
        width, height = _SIZES[panel.kind]
        if x + width > _COLUMNS or before not in (None, panel.kind):
            x, y, row_height = 0, y + row_height, 0
        yield _panel(number, panel, {"x": x, "y": y, "w": width, "h": height})
        x, row_height, before = x + width, max(row_height, height), panel.kind


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    target = {
        "refId": "A",
        "datasource": _SOURCE,
        "expr": panel.query,
        "legendFormat": panel.legend,
        "instant": panel.kind != "timeseries",
        "range": panel.kind == "timeseries",
        "format": "table" if panel.kind == "table" else "time_series",
    }
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.warns_from is not None:
        steps.append({"color": "orange", "value": panel.warns_from})
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "targets": [target],
        "transformations": [_without_columns(panel.query)] if panel.kind == "table" else [],
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {},
    }


def _without_columns(query: str) -> dict[str, Any]:
    """Grafana's transformation that hides the columns that nobody needs. An `_info` metric's value is always 1."""
    names = ("Time", "__name__", "instance", "job", *(("Value",) if "_info" in query else ()))
    return {"id": "organize", "options": {"excludeByName": dict.fromkeys(names, True)}}
