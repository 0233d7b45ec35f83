"""Families → the text that Prometheus reads. Only this module imports prometheus_client.

The page comes from a collector of current values, without a registry. No series is remembered, so a removed one is
absent from the next page. Nothing about this process (memory, file descriptors, garbage collection) is exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from vgpumgr.core.usage.metric_table import COUNTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.usage.metrics import Family


def text(families: Sequence[Family]) -> bytes:
    """The text format (0.0.4), in UTF-8, ending with a line break; no timestamps."""
    return generate_latest(_Families(families))


def negotiated(families: Sequence[Family], accept: str) -> tuple[bytes, str]:
    """The page in the format that an Accept header prefers (text or OpenMetrics), and its Content-Type."""
    encode, content_type = choose_encoder(accept)
    return encode(_Families(families)), content_type


class _Families(Collector):
    def __init__(self, families: Sequence[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        for family in self._families:
            metric = family.metric
            kind = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
            found = kind(metric.name, metric.help, labels=metric.labels)
            for series in family.series:
                found.add_metric(series.labels, series.value)
            yield found
