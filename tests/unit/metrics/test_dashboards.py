"""The dashboards that travel with the package are what Grafana takes, and ask for nothing that the exporter lacks."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from vgpumgr import resources
from vgpumgr.cli.main import run
from vgpumgr.core.usage.metric_table import METRICS
from vgpumgr.metrics.dashboards import DASHBOARDS, classic

LABELS = {label for metric in METRICS for label in metric.labels} | {"run"}
every = pytest.mark.parametrize("name", DASHBOARDS)


@every
def test_it_is_printed_as_grafanas_classic_json_with_its_data_source_as_a_variable(
    name: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(["export", "dashboard", name]) == 0
    found = json.loads(capfdbinary.readouterr().out)
    assert found == classic(name)
    assert (found["schemaVersion"], found["id"], found["uid"]) == (39, None, f"vgpumgr-{name}")
    assert "__inputs" not in found
    assert found["templating"]["list"][0]["type"] == "datasource"
    sources = [part["datasource"] for part in (*found["templating"]["list"][1:], *found["panels"])]
    sources += [target["datasource"] for panel in found["panels"] for target in panel["targets"]]
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)


@every
def test_no_two_panels_overlap_and_each_has_an_id_of_its_own_and_a_title(name: str) -> None:
    panels = classic(name)["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["gridPos"]["x"] >= 0
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    for one, other in itertools.combinations([panel["gridPos"] for panel in panels], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert beside or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"], (one, other)


def asked(dashboard: dict[str, Any]) -> list[str]:
    """Its queries: the panels', and those for the values of its variables."""
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return queries + [one["query"]["query"] for one in dashboard["templating"]["list"][1:]]


@every
def test_every_variable_is_defined_and_used_and_every_metric_and_label_is_one_of_the_exporters(name: str) -> None:
    dashboard = classic(name)
    text = " ".join(asked(dashboard))
    defined = {one["name"] for one in dashboard["templating"]["list"]} - {"datasource"}
    assert set(re.findall(r"\$(?!__)(\w+)", text)) == defined
    assert set(re.findall(r"vgpumgr_\w+", text)) <= {metric.name for metric in METRICS}
    legends = " ".join(target["legendFormat"] for panel in dashboard["panels"] for target in panel["targets"])
    assert set(re.findall(r"{{(\w+)}}", legends)) <= LABELS


def test_a_picture_warns_only_where_a_rule_has_that_limit() -> None:
    rules = resources.alert_rules()
    for panel in (panel for dashboard in DASHBOARDS.values() for panel in dashboard.panels):
        if panel.warns_from not in (None, 1):
            assert f"> {panel.warns_from}\n" in rules, panel.title
        if panel.warns_from == 1:
            (metric,) = re.findall(r"vgpumgr_\w+", panel.query)
            assert re.search(rf"expr: {metric} (> 0|== 0|== 1)$", rules, re.MULTILINE), panel.title


def test_a_name_that_no_dashboard_has_is_refused_with_those_there_are(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert run(["export", "dashboard", "owners; rm -rf /"]) == 2
    told = capfdbinary.readouterr().err.decode()
    assert all(name in told for name in DASHBOARDS)
