"""Metrics for Prometheus: requests are counted as they come, the rest is read when it is asked for."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from syndicated.service.core.service import Service
from syndicated.service.core.services import Services

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
LATEST_DECISIONS = 1000  # whose latency the dashboard shows
GAUGES: dict[str, tuple[str, Callable[[Service], float]]] = {
    "queue_length": ("Requests that wait for their batch.", lambda service: service.group_commit.waiting),
    "queue_bytes": ("Bytes that requests without an answer hold.", lambda service: service.group_commit.held_bytes),
    "ready": ("1 if requests are served.", lambda service: service.group_commit.ready),
    "store_away": ("1 while the journal cannot be used.", lambda service: bool(service.group_commit.store_error)),
    "folded_sequence": ("The sequence number of the last event in the state.", lambda service: service.state.seq),
    "clock_offset_seconds": (
        "How far the time of events is ahead of this machine's clock.",
        lambda service: service.group_commit.clock_offset,
    ),
    "staleness_seconds": (
        "How old the last event of another process was when it reached this one.",
        lambda service: service.group_commit.follower.staleness,
    ),
    "batch_size": (
        "Mean number of events in a transaction.",
        lambda service: service.counts["events"] / max(1, service.counts["batches"]),
    ),
}
COUNTERS = {
    "batches": "Transactions of the journal.",
    "events": "Events written to the journal.",
    "repeated": "Requests that repeated an earlier one and changed nothing.",
    "conflict": "Rewards that contradicted an earlier one.",
    "overload": "Requests refused because too many waited, or held too many bytes.",
}
BANDIT_LABEL = ["bandit"]

Family = TypeVar("Family", GaugeMetricFamily, CounterMetricFamily)


class Metrics:
    """All metrics of one process, in a registry of their own.

    Requests are counted by hand, in plain dictionaries, and turned into a histogram when the metrics are read. All
    requests are counted on the event loop's thread, so this needs none of the locks of prometheus_client.Histogram and
    Counter, which take five times as long: 6.1 us a request against 1.2 us, measured on one machine.
    """

    def __init__(self, services: Services) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_ServiceCollector(services))
        self.registry.register(self)
        self._statuses: dict[tuple[str, int], int] = {}
        self._counts: dict[str, list[int]] = {}  # by route: the requests in each bucket
        self._seconds: dict[str, float] = {}
        self._decisions: deque[float] = deque(maxlen=LATEST_DECISIONS)

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        if route not in self._counts:
            self._seconds[route], self._counts[route] = 0.0, [0] * (len(BUCKETS) + 1)
        self._counts[route][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds
        self._statuses[route, status] = self._statuses.get((route, status), 0) + 1
        if status == 200 and route.endswith("/decide"):
            self._decisions.append(seconds)

    def decision_latency(self) -> tuple[float, float] | None:
        """The median and the 99th percentile of the latest decisions, in seconds; None before the first."""
        ranked = sorted(self._decisions)
        return (ranked[len(ranked) // 2], ranked[len(ranked) * 99 // 100]) if ranked else None

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "syndicated_requests", "Requests by route and status.", labels=["route", "status"]
        )
        for (route, status), count in list(self._statuses.items()):  # requests are counted meanwhile
            requests.add_metric([route, str(status)], count)
        seconds = HistogramMetricFamily("syndicated_request_seconds", "Seconds until the reply.", labels=["route"])
        for route, by_bucket in list(self._counts.items()):
            counts = zip([*map(str, map(float, BUCKETS)), "+Inf"], accumulate(by_bucket.copy()), strict=True)
            seconds.add_metric([route], list(counts), self._seconds[route])
        yield from (requests, seconds)

    def text(self) -> bytes:
        """All of them, on any thread: what is counted meanwhile is in them or not."""
        return generate_latest(self.registry)


class _ServiceCollector:
    """The services' own numbers. They are read without asking a queue, so also while a journal is unavailable.

    Where there are several journals, the label `journal` tells them apart.
    """

    def __init__(self, services: Services) -> None:
        self._services = list(services)
        self._labels = ["journal"] if len(self._services) > 1 else []

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        for name, (text, value) in GAUGES.items():
            yield self._of_each(GaugeMetricFamily(f"syndicated_{name}", text, labels=self._labels), value)
        for name, text in COUNTERS.items():
            family = CounterMetricFamily(f"syndicated_{name}", text, labels=self._labels)
            yield self._of_each(family, lambda service, name=name: service.counts[name])  # type: ignore[misc]
        yield from self._bandits()

    def _of_each(self, family: Family, value: Callable[[Service], float]) -> Family:
        for number, service in enumerate(self._services, 1):
            family.add_metric([str(number)] * len(self._labels), value(service))
        return family

    def _bandits(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily("syndicated_decisions", "Decisions of the epoch.", labels=BANDIT_LABEL)
        rewards = CounterMetricFamily("syndicated_rewards", "Rewards of the epoch.", labels=BANDIT_LABEL)
        late = CounterMetricFamily(
            "syndicated_late", "Rewards that came after their window had closed.", labels=BANDIT_LABEL
        )
        mean = GaugeMetricFamily("syndicated_reward_mean", "Mean reward of the epoch.", labels=BANDIT_LABEL)
        alarms = GaugeMetricFamily("syndicated_alarms", "Alarms that are on.", labels=BANDIT_LABEL)
        for bandit in [bandit for service in self._services for bandit in list(service.state.names.values())]:
            history, labels = bandit.history, [bandit.name]
            decisions.add_metric(labels, history.count)
            rewards.add_metric(labels, history.learned)
            late.add_metric(labels, bandit.lates)
            mean.add_metric(labels, history.total / history.learned if history.learned else 0.0)
            alarms.add_metric(labels, len(bandit.alarms()))
        yield from (decisions, rewards, late, mean, alarms)
