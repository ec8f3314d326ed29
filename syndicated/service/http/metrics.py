"""Numbers for Prometheus: requests as they come, and the service's and the bandits' own when they are asked for."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from syndicated.service.core.service import Service

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
COUNTS = {
    "batches": "Transactions of the journal.",
    "events": "Events that were journalled.",
    "repeated": "Requests that repeated an earlier one and changed nothing.",
    "conflict": "Rewards that contradicted an earlier one.",
    "overload": "Requests refused because the queue was full.",
}
BANDIT = ["bandit"]


class Metrics:
    """All metrics of one service, in a registry of their own."""

    def __init__(self, service: Service) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Collector(service))
        self.registry.register(self)
        self._statuses: dict[tuple[str, int], int] = {}
        self._slots: dict[str, list[int]] = {}  # by route: how many requests took as long as each bucket says
        self._seconds: dict[str, float] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        if route not in self._slots:
            self._slots[route], self._seconds[route] = [0] * (len(SECONDS) + 1), 0.0
        self._slots[route][bisect_left(SECONDS, seconds)] += 1
        self._seconds[route] += seconds
        self._statuses[route, status] = self._statuses.get((route, status), 0) + 1

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "syndicated_requests", "Requests by route and status.", labels=["route", "status"]
        )
        for (route, status), count in self._statuses.items():
            requests.add_metric([route, str(status)], count)
        seconds = HistogramMetricFamily("syndicated_request_seconds", "Seconds until the reply.", labels=["route"])
        for route, slots in self._slots.items():
            counts = zip([*map(str, map(float, SECONDS)), "+Inf"], accumulate(slots), strict=True)
            seconds.add_metric([route], list(counts), self._seconds[route])
        yield from (requests, seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Collector:
    """What the service knows, read without a request to it: so it can be read also while the journal is away."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        group_commit, counts = self._service.group_commit, self._service.counts
        yield GaugeMetricFamily("syndicated_queue_length", "Requests that wait for their batch.", group_commit.waiting)
        yield GaugeMetricFamily("syndicated_ready", "1 if requests are served.", group_commit.ready)
        yield GaugeMetricFamily(
            "syndicated_store_away", "1 while the journal cannot be used.", bool(group_commit.store_error)
        )
        yield GaugeMetricFamily("syndicated_folded_sequence", "The last event that was folded.", group_commit.state.seq)
        yield GaugeMetricFamily(
            "syndicated_staleness_seconds",
            "How old the last event of another process was when it was folded here.",
            group_commit.staleness,
        )
        for name, text in COUNTS.items():
            yield CounterMetricFamily(f"syndicated_{name}", text, counts[name])
        mean = counts["events"] / max(1, counts["batches"])
        yield GaugeMetricFamily("syndicated_batch_size", "Events of a transaction, on average.", mean)
        yield from self._bandits()

    def _bandits(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily("syndicated_decisions", "Decisions of the epoch.", labels=BANDIT)
        rewards = CounterMetricFamily("syndicated_rewards", "Rewards of the epoch.", labels=BANDIT)
        late = CounterMetricFamily("syndicated_late", "Rewards that came after their window.", labels=BANDIT)
        mean = GaugeMetricFamily("syndicated_reward_mean", "Mean reward of the epoch.", labels=BANDIT)
        alarms = GaugeMetricFamily("syndicated_alarms", "Things to look at.", labels=BANDIT)
        for bandit in list(self._service.state.bandits.values()):
            history, labels = bandit.history, [bandit.name]
            decisions.add_metric(labels, history.count)
            rewards.add_metric(labels, history.learned)
            late.add_metric(labels, bandit.lates)
            mean.add_metric(labels, history.total / history.learned if history.learned else 0.0)
            alarms.add_metric(labels, len(bandit.alarms()))
        yield from (decisions, rewards, late, mean, alarms)
