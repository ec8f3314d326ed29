"""Numbers for Prometheus: requests as they come, and the engine's and the bandits' own when they are asked for."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from syndicated.service.engine import Engine

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

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All metrics of one service, in a registry of their own."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Collector(engine))
        self._requests = Counter(
            "syndicated_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "syndicated_request_seconds",
            "Seconds until the reply.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self._known: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        pair = self._known.get((route, status))
        if pair is None:
            pair = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._known[route, status] = pair
        pair[0].inc()
        pair[1].observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Collector:
    """What the engine knows, read beside its thread: it can be had also while the journal is away."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        engine = self._engine
        yield GaugeMetricFamily("syndicated_queue_length", "Requests that wait for their batch.", engine.waiting)
        yield GaugeMetricFamily("syndicated_ready", "1 if requests are served.", engine.ready)
        yield GaugeMetricFamily("syndicated_store_away", "1 while the journal cannot be used.", bool(engine.away))
        yield GaugeMetricFamily("syndicated_folded_sequence", "The last event that was folded.", engine.state.seq)
        yield GaugeMetricFamily(
            "syndicated_staleness_seconds",
            "How old the last event of another process was when it was folded here.",
            engine.staleness,
        )
        for name, text in COUNTS.items():
            yield CounterMetricFamily(f"syndicated_{name}", text, engine.counts[name])
        mean = engine.counts["events"] / max(1, engine.counts["batches"])
        yield GaugeMetricFamily("syndicated_batch_size", "Events of a transaction, on average.", mean)
        yield from self._bandits()

    def _bandits(self) -> Iterator[Metric]:
        decisions = CounterMetricFamily("syndicated_decisions", "Decisions of the epoch.", labels=BANDIT)
        rewards = CounterMetricFamily("syndicated_rewards", "Rewards of the epoch.", labels=BANDIT)
        late = CounterMetricFamily("syndicated_late", "Rewards that came after their window.", labels=BANDIT)
        mean = GaugeMetricFamily("syndicated_reward_mean", "Mean reward of the epoch.", labels=BANDIT)
        alarms = GaugeMetricFamily("syndicated_alarms", "Things to look at.", labels=BANDIT)
        for bandit in list(self._engine.state.bandits.values()):
            history, labels = bandit.history, [bandit.name]
            decisions.add_metric(labels, history.count)
            rewards.add_metric(labels, history.learned)
            late.add_metric(labels, bandit.lates)
            mean.add_metric(labels, history.total / history.learned if history.learned else 0.0)
            alarms.add_metric(labels, len(bandit.alarms()))
        yield from (decisions, rewards, late, mean, alarms)
