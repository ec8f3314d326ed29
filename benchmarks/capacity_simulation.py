"""A simulation of replicas on one database, with the constants of capacity.py: does the model's arithmetic hold?

A discrete-event simulation. Requests come at random moments (Poisson) and are spread over the replicas. A replica takes
all that wait as one batch: it computes, waits for the commit, and answers; what other replicas have committed meanwhile
is work that it does before its next batch. Every replica has a core. Beside it stands what the model says: the share of
a core that is busy. One decision in five gets a reward.

Then a point that was measured: 60 connections that send the next request when the last was answered, on one, two and
three replicas, with two cores for replicas, database and load.

    python benchmarks/capacity_simulation.py
"""

import heapq
import math
import random
from dataclasses import dataclass, field

from capacity import CONNECTIONS, CONSTANTS, RATES, REWARDS, Constants, Prices, need
from rich import box
from rich.console import Console
from rich.table import Table

SECONDS = 20.0
COMMIT_SECONDS = 0.004  # an assumption: a flush of a busy disk, during which a replica only waits
QUIET_COMMIT_SECONDS = 0.001  # about what it took where the measured point was measured
CORES = 2


@dataclass
class Replica:
    """What waits at a replica, and what it has done."""

    queue: list[tuple[float, float]] = field(default_factory=list)  # when each came, and what it computes
    fold: float = 0.0  # seconds of folding what others have written
    busy: float = 0.0
    idle: bool = True
    latencies: list[float] = field(default_factory=list)
    batches: int = 0


def own(constants: Constants, kind: str) -> float:
    """Seconds of a request without its share of a transaction."""
    return (constants.decide if kind == "decide" else constants.reward) - constants.transaction / constants.batch


class Simulation:
    """Replicas of one database under a load. Computing takes `slow` times as long as on a core of one's own."""

    def __init__(self, replicas: int, constants: Constants, commit: float, seed: int = 0) -> None:
        self.replicas, self.commit = [Replica() for _ in range(replicas)], commit
        self.constants, self.random = constants, random.Random(seed)
        self.events: list[tuple[float, int, str, int, list[tuple[float, float]]]] = []
        self.count, self.slow, self.closed = 0, 1.0, False

    def push(self, at: float, what: str, replica: int, batch: list[tuple[float, float]] | None = None) -> None:
        self.count += 1
        heapq.heappush(self.events, (at, self.count, what, replica, batch or []))

    def cost(self) -> tuple[float, float]:
        """What the next request computes where it is answered, and in every other replica."""
        if self.closed or self.random.random() < 1 / (1 + REWARDS):
            return own(self.constants, "decide"), self.constants.fold_decision
        return own(self.constants, "reward"), self.constants.fold_reward

    def run(self, seconds: float, rate: float = 0.0, connections: int = 0) -> None:
        self.closed = bool(connections)
        for k in range(connections):
            self.push(0.0, "arrive", k % len(self.replicas))
        if rate:
            self.push(self.random.expovariate(rate), "arrive", 0)
        while self.events:
            at, _, what, k, batch = heapq.heappop(self.events)
            if at > seconds:
                return
            if what == "arrive":
                if rate:
                    k = self.random.randrange(len(self.replicas))
                    self.push(at + self.random.expovariate(rate), "arrive", 0)
                compute, fold = self.cost()
                self.replicas[k].queue.append((at, compute))
                for other in self.replicas:
                    other.fold += fold if other is not self.replicas[k] else 0.0
            else:
                replica = self.replicas[k]
                replica.idle = True
                replica.latencies += [at - came for came, _ in batch]
                if connections:
                    for _ in batch:
                        self.push(at, "arrive", k)
            self.begin(k, at)

    def begin(self, k: int, at: float) -> None:
        """Begin a batch of all that waits, if the replica is idle."""
        replica = self.replicas[k]
        if not replica.idle or not replica.queue:
            return
        batch, replica.queue = replica.queue, []
        compute = sum(each for _, each in batch) + self.constants.transaction + replica.fold
        replica.fold, replica.idle = 0.0, False
        replica.busy += compute
        replica.batches += 1
        self.push(at + compute * self.slow + self.commit, "answer", k, batch)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def open_table(console: Console, constants: Constants) -> None:
    columns = (
        "decisions/s",
        "replicas",
        "busy, model",
        "busy, simulated",
        "in a batch",
        "p50 ms",
        "p99 ms",
    )
    table = Table(*columns, box=box.MARKDOWN)
    for rate in RATES:
        found = need(rate, constants, Prices())
        each, count = rate / found.databases, found.replicas
        costs = constants.decide + REWARDS * constants.reward, constants.fold_decision + REWARDS * constants.fold_reward
        model = each * (costs[0] / count + costs[1] * (1 - 1 / count))
        simulation = Simulation(count, constants, COMMIT_SECONDS)
        simulation.run(SECONDS, rate=each * (1 + REWARDS))
        latencies = [latency for replica in simulation.replicas for latency in replica.latencies]
        busy = sum(replica.busy for replica in simulation.replicas) / count / SECONDS
        mean = len(latencies) / sum(replica.batches for replica in simulation.replicas)
        times = [f"{quantile(latencies, share) * 1e3:.1f}" for share in (0.5, 0.99)]
        table.add_row(f"{each:,.0f}", str(count), f"{model:.2f}", f"{busy:.2f}", f"{mean:.1f}", *times)
    console.print(table)


def closed_table(console: Console, constants: Constants) -> None:
    """All share the cores: computing slows down until what is computed in a second fits into them."""
    cpu_columns = ("CPU of replicas, µs, simulated", "measured")
    table = Table("replicas", "requests/s, simulated", "of one", "measured", "of one", *cpu_columns, box=box.MARKDOWN)
    first = 0.0
    for count, measured in enumerate(constants.runs, 1):
        low, high = 1.0, 20.0
        for _ in range(20):
            slow = math.sqrt(low * high)
            simulation = Simulation(count, constants, QUIET_COMMIT_SECONDS)
            simulation.slow = slow
            simulation.run(SECONDS / 4, connections=CONNECTIONS)
            answered = sum(len(replica.latencies) for replica in simulation.replicas)
            beside = answered * (constants.database + constants.load)
            busy = sum(replica.busy for replica in simulation.replicas) + beside
            low, high = (slow, high) if busy / (SECONDS / 4) > CORES else (low, slow)
        rate = answered / (SECONDS / 4)
        first = first or rate
        cpu = [sum(replica.busy for replica in simulation.replicas) / answered, measured.cpu]
        ratios = f"{rate / first:.2f}", f"{measured.rate / constants.runs[0].rate:.2f}"
        rates = f"{rate:,.0f}", ratios[0], f"{measured.rate:,}", ratios[1]
        table.add_row(str(count), *rates, *(f"{each * 1e6:.0f}" for each in cpu))
    console.print(table)


def main() -> None:
    console = Console(width=130)
    open_table(console, CONSTANTS)
    closed_table(console, CONSTANTS)


if __name__ == "__main__":
    main()
