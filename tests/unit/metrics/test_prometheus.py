"""A real Prometheus (Debian's) scrapes the served page, and PromQL finds in it what the store was given."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.unit.metrics import made_up, reading
from tests.unit.metrics.prometheus import Prometheus, promtool, scraping
from tests.unit.metrics.serving import Server, Site
from vgpumgr import resources
from vgpumgr.core.usage.metric_table import METRICS
from vgpumgr.core.usage.runs import PlannedHost
from vgpumgr.store.sql import runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.usage.readings import Round

DOCS = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ODD = 'say "vm" \\ 🐧'


def page(busy_s: float) -> Round:
    """Two VMs that run, one that is off and one with an odd name, measured just now over `busy_s` seconds."""
    at = time.time()
    vgpus = [
        made_up.vgpu(1, sm=31),
        made_up.vgpu(2, sm=8),
        made_up.vgpu(3, state="off"),
        made_up.vgpu(4, sm=12, vm=ODD),
    ]
    found = made_up.one_round(made_up.gpu(*vgpus), at=at)
    until = int(at * 1e6)
    rows = tuple(replace(row, since_us=until - int(busy_s * 1e6), until_us=until) for row in found.measured)
    return replace(found, measured=rows)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Server, Prometheus]]:
    """A store, the program that serves it, and a Prometheus that scrapes that once a second."""
    folder = tmp_path_factory.mktemp("prometheus")
    site = Site(folder=folder)
    site.add([page(1)], every_s=60)
    planned = PlannedHost(host="kvm01", at=time.time(), reached=True, owners={"vm01": "team-a"})
    runs.put(site.store.path, None, [planned], fleet=None)
    with site.serving("--listen", "127.0.0.1:0") as server, scraping(server, folder) as prometheus:
        yield site, server, prometheus


def test_the_page_is_scraped_whole_and_promql_finds_the_values(scraped: tuple[Site, Server, Prometheus]) -> None:
    """Every series of the page, odd names and all, and `host` is our host's name, not the target's."""
    _, server, prometheus = scraped
    assert prometheus.until("vgpumgr_host_up") == [
        ({"host": "kvm01", "instance": "{}:{}".format(*server.address), "job": "vgpumgr"}, 1)
    ]
    ((_, samples),) = prometheus.query("scrape_samples_scraped")
    assert samples == len(reading.parse(server.ask()[1]))
    ((labels, share),) = prometheus.query('vgpumgr_vgpu_sm_utilization_ratio{vm="vm01"}')
    assert (labels["host"], labels["gpu"], labels["slot"], share) == ("kvm01", made_up.GPU, "vgpu0", 0.31)
    assert prometheus.query("vgpumgr_vgpu_framebuffer_used_bytes{vm='vm01'}")[0][1] == 20 * 2**30
    assert {labels["vm"] for labels, _ in prometheus.query("vgpumgr_vgpu_sm_busy_seconds_total")} == {
        "vm01",
        "vm02",
        ODD,
    }
    assert prometheus.query('vgpumgr_vgpu_sm_utilization_ratio{vm="vm03"}') == []
    assert round(prometheus.query("sum by (host, gpu) (vgpumgr_vgpu_sm_utilization_ratio)")[0][1], 9) == 0.51


def test_use_against_what_was_entitled_is_one_division_and_constants_join(
    scraped: tuple[Site, Server, Prometheus],
) -> None:
    _, _, prometheus = scraped
    prometheus.until("vgpumgr_host_up")
    used = prometheus.query("vgpumgr_vgpu_sm_utilization_ratio / vgpumgr_vgpu_share_entitled_ratio")
    assert {labels["vm"]: share for labels, share in used} == {"vm01": 0.62, "vm02": 0.16, ODD: 0.24}
    joined = prometheus.query(
        "vgpumgr_vgpu_sm_utilization_ratio{vm='vm01'}"
        " * on (host, gpu, vm, slot) group_left (type_name) vgpumgr_vgpu_info"
        " * on (host, gpu) group_left (policy) vgpumgr_gpu_info"
    )
    assert [(labels["type_name"], labels["policy"], share) for labels, share in joined] == [
        ("A40-24Q", "best-effort", 0.31)
    ]


def test_busy_over_observed_is_the_true_mean_however_rounds_and_scrapes_fall(
    scraped: tuple[Site, Server, Prometheus],
) -> None:
    """Rounds that no scrape falls between are counted all the same."""
    site, _, prometheus = scraped
    prometheus.until("vgpumgr_host_up")
    for length in (0.5, 2, 7):
        site.add([page(length)], every_s=60)
    prometheus.until("increase(vgpumgr_vgpu_observed_seconds_total{vm='vm01'}[1m]) > 0")
    found = prometheus.query(
        "rate(vgpumgr_vgpu_sm_busy_seconds_total[1m]) / rate(vgpumgr_vgpu_observed_seconds_total[1m])"
    )
    assert {labels["vm"]: round(share, 6) for labels, share in found} == {"vm01": 0.31, "vm02": 0.08, ODD: 0.12}


def blocks(language: str) -> list[str]:
    """The page's blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_shipped_rules_and_the_queries_name_metrics_that_exist_and_are_taken(
    scraped: tuple[Site, Server, Prometheus],
) -> None:
    """By the real Prometheus."""
    _, _, prometheus = scraped
    prometheus.until("vgpumgr_host_up")
    expressions = [
        rule["expr"] for group in yaml.safe_load(resources.alert_rules())["groups"] for rule in group["rules"]
    ]
    assert len(expressions) > 3
    for expression in expressions:
        prometheus.query(expression)
    named = set(re.findall(r"vgpumgr_\w+", " ".join((*expressions, *blocks("promql")))))
    assert named <= {metric.name for metric in METRICS}


def test_the_queries_of_the_docs_have_answers(scraped: tuple[Site, Server, Prometheus]) -> None:
    """Those that join with another exporter are only taken: it is not there."""
    _, _, prometheus = scraped
    queries = [query for block in blocks("promql") for query in block.split("\n\n") if query.strip()]
    assert len(queries) > 3
    for query in queries:
        if "DCGM" in query or "libvirt" in query:
            assert prometheus.query(query) == []
        else:
            prometheus.until(query)


def test_the_scrape_configs_of_the_docs_are_good(tmp_path: Path) -> None:
    configs = [block for block in blocks("yaml") if block.startswith("scrape_configs:")]
    assert configs
    for config in configs:
        (tmp_path / "config.yml").write_text(config, encoding="utf-8")
        promtool("check", "config", "config.yml", folder=tmp_path)


def test_the_table_of_the_docs_is_the_exporters_own() -> None:
    """Each metric with its kind, labels, unit, meaning and stability; none more."""
    rows = re.findall(r"^\| `(vgpumgr_\w+)` \| (.*) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [(name, *rest.split(" | ")) for name, rest in rows] == [
        (
            metric.name,
            metric.kind,
            ", ".join(metric.labels) or "-",
            metric.unit,
            metric.help,
            metric.stability,
        )
        for metric in METRICS
    ]
