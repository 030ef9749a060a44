# Copyright (c) lingjun.rdma contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin's metrics. What the picture says is read from it when somebody asks, not kept beside it.

The names are the contract of DESIGN.md 6. Series of counters exist from the first scrape on, so that a rate over the
first failure is right. https://prometheus.io/docs/practices/instrumentation/#avoid-missing-metrics
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rdma_dp.core.model import Picture

REGISTRATION_RESULTS = ("ok", "refused", "timeout", "unavailable")
ALLOCATION_RESULTS = ("ok", "refused")
# An answer takes about a millisecond; a second means that kubelet's pod admission stands still.
_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0)


class Metrics:
    """Everything that is counted, with one registry of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=self.registry)

        self._registrations = counter(
            "rdma_dp_registrations", "Attempts to register with kubelet.", "resource", "result"
        )
        self._allocations = counter("rdma_dp_allocations", "Allocate calls of kubelet.", "resource", "result")
        self._seconds = Histogram(
            "rdma_dp_allocate_seconds",
            "Time to answer Allocate.",
            ["resource"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._config = Gauge(
            "rdma_dp_config_info",
            "The config in force; equal hashes, equal configs.",
            ["hash"],
            registry=self.registry,
        )
        self._reloads = counter("rdma_dp_config_reloads", "Times a changed config was read.", "result")
        self._scans = counter("rdma_dp_scans", "Scans of the NICs.", "result")
        self._last_scan = Gauge(
            "rdma_dp_last_scan_timestamp_seconds", "When the NICs were last scanned.", registry=self.registry
        )
        self._crashes = counter("rdma_dp_task_failures", "Background tasks that ended unexpectedly.", "task")
        for family in (self._reloads, self._scans):
            for result in ("ok", "error"):
                family.labels(result)

    def read_from(self, picture: Callable[[], Picture], connected: Callable[[], Mapping[str, bool]]) -> None:
        """Registers the metrics that are read when somebody asks. ``connected``: per resource, a live stream or not."""
        self.registry.register(_Reader(picture, connected))

    def expect(self, resource: str) -> None:
        """Makes the resource's series exist."""
        for result in REGISTRATION_RESULTS:
            self._registrations.labels(resource, result)
        for result in ALLOCATION_RESULTS:
            self._allocations.labels(resource, result)
        self._seconds.labels(resource)

    def registered(self, resource: str, result: str) -> None:
        """Counts an attempt to register."""
        self._registrations.labels(resource, result).inc()

    def allocated(self, resource: str, result: str, seconds: float) -> None:
        """Counts an Allocate call."""
        self._allocations.labels(resource, result).inc()
        self._seconds.labels(resource).observe(seconds)

    def config_is(self, digest: str) -> None:
        """Says which config is in force."""
        self._config.clear()
        self._config.labels(digest).set(1)

    def reloaded(self, result: str) -> None:
        """Counts a reading of a changed config: ok or error."""
        self._reloads.labels(result).inc()

    def scanned(self, result: str, at: float | None = None) -> None:
        """Counts a scan: ok or error; ``at`` is s since the epoch."""
        self._scans.labels(result).inc()
        if at is not None:
            self._last_scan.set(at)

    def crashed(self, task: str) -> None:
        """Counts an unexpected end of a background task."""
        self._crashes.labels(task).inc()

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry)


class _Reader(Collector):
    """Metrics that are a view of the picture and of the sessions."""

    def __init__(self, picture: Callable[[], Picture], connected: Callable[[], Mapping[str, bool]]) -> None:
        self._picture = picture
        self._connected = connected

    def describe(self) -> Iterable[Metric]:
        """The same families, empty."""
        return (family for family, _unused in self._families(Picture(), {}))

    def collect(self) -> Iterator[Metric]:
        """As of now."""
        for family, samples in self._families(self._picture(), self._connected()):
            for labels, value in samples:
                family.add_metric(labels, value)
            yield family

    def _families(
        self, picture: Picture, connected: Mapping[str, bool]
    ) -> Iterator[tuple[GaugeMetricFamily, list[tuple[list[str], float]]]]:
        devices = []
        for pool in picture.pools:
            for health, count in (("healthy", pool.healthy), ("unhealthy", len(pool.devices) - pool.healthy)):
                devices.append(([pool.config.resource, health], float(count)))
        yield GaugeMetricFamily("rdma_dp_devices", "Devices offered.", labels=["resource", "health"]), devices
        up = {
            (nic.rdma_device, nic.pci_address, str(port.number)): float(port.state == "ACTIVE")
            for pool in picture.pools
            for nic in pool.nics
            for port in nic.ports
        }
        yield (
            GaugeMetricFamily("rdma_dp_nic_up", "1 for a port that is active.", labels=["nic", "pci", "port"]),
            [(list(labels), value) for labels, value in sorted(up.items())],
        )
        yield (
            GaugeMetricFamily(
                "rdma_dp_kubelet_connected", "1 while kubelet watches the resource.", labels=["resource"]
            ),
            [([resource], float(live)) for resource, live in sorted(connected.items())],
        )
