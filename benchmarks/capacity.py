"""The capacity model of docs/scale.md: what so many decisions a second need, from measured constants.

Everything is in cores, bytes and transactions; money comes last, from prices that are assumptions. All that was
measured is in `Constants`, also for the simulation: to measure again, change them, and run both scripts. They print the
tables of docs/scale.md.

    python benchmarks/capacity.py
"""

import math
from typing import NamedTuple

from rich import box
from rich.console import Console
from rich.table import Table

RATES = (1_000, 10_000, 100_000)  # decisions a second
REWARDS = 0.2  # of a decision
BUSY = 0.7  # share of a core that a replica may use
MAX_REPLICAS = 8  # on one database
RETENTION_DAYS = 7
SECONDS_PER_MONTH = 730 * 3600


class Run(NamedTuple):
    """What replicas did that were asked by `CONNECTIONS` as fast as they answered."""

    rate: float  # requests a second
    cpu: float  # seconds of the replicas' processor for a request


CONNECTIONS = 60


class Constants(NamedTuple):
    """Measured by benchmarks/replicas.py (one hot bandit, 20 arms of 10 features); docs/scale.md says where."""

    decide: float = 78e-6  # seconds of a replica's processor for a decision, its own fold included
    reward: float = 53e-6
    fold_decision: float = 2.5e-6  # seconds that each other replica needs to fold it, and its maker to tell of it
    fold_reward: float = 8.5e-6
    database: float = 53e-6  # seconds of the database's processors for a decision, with three replicas
    database_reward: float = 57e-6
    wal: float = 670.0  # bytes of write-ahead log for a decision
    wal_reward: float = 430.0
    event: float = 380.0  # bytes in the table and its indices
    batch: float = 57.0  # decisions of a transaction where `decide` was measured
    transaction: float = 0.40e-3  # seconds of a replica's processor: 14 us more where 19 share it and not 57
    load: float = 14e-6  # seconds of the load's processor for a request
    runs: tuple[Run, ...] = (Run(8812, 78e-6), Run(10090, 95e-6), Run(8947, 119e-6))  # of one, two, three replicas


CONSTANTS = Constants()


class Prices(NamedTuple):
    """Assumptions, in dollars: of the order of what clouds list for on-demand use."""

    core_hour: float = 0.05
    database_core_hour: float = 0.15
    gigabyte_month: float = 0.12


class Need(NamedTuple):
    databases: int
    replicas: int  # of each database
    database_cores: float  # of each
    wal: float  # bytes a second, of each
    stored: float  # bytes, of all
    dollars: float  # a month


def foldable(constants: Constants) -> float:
    """Decisions a second that a replica can fold if it does nothing else: no number of replicas takes more."""
    return BUSY / (constants.fold_decision + REWARDS * constants.fold_reward)


def replicas_for(rate: float, constants: Constants) -> int | None:
    """The least number of replicas that take this rate on one database; each folds what the others write."""
    own = rate * (constants.decide + REWARDS * constants.reward)
    fold = rate * (constants.fold_decision + REWARDS * constants.fold_reward)
    for count in range(1, MAX_REPLICAS + 1):
        if own / count + fold * (1 - 1 / count) <= BUSY:
            return count
    return None


def need(rate: float, constants: Constants, prices: Prices) -> Need:
    """The fewest databases, and replicas of each, with bandits spread evenly over them."""
    databases = 1
    while (count := replicas_for(rate / databases, constants)) is None:
        databases += 1
    each = rate / databases
    cores = each * (constants.database + REWARDS * constants.database_reward)
    wal = each * (constants.wal + REWARDS * constants.wal_reward)
    stored = rate * (1 + REWARDS) * constants.event * RETENTION_DAYS * 86_400
    hours = SECONDS_PER_MONTH / 3600
    machines = databases * count * prices.core_hour + databases * math.ceil(cores / BUSY) * prices.database_core_hour
    return Need(databases, count, cores, wal, stored, machines * hours + stored / 1e9 * prices.gigabyte_month)


def main() -> None:
    console, constants = Console(width=140), CONSTANTS
    own, fold = (
        f"(D·{decide * 1e6:.3g} + W·{reward * 1e6:.3g}) µs"
        for decide, reward in (
            (constants.decide, constants.reward),
            (constants.fold_decision, constants.fold_reward),
        )
    )
    console.print(f"{own} / R  +  (1 − 1/R)·{fold}")
    kept = f"kept in {RETENTION_DAYS} days"
    columns = ("decisions/s", "databases", "replicas of each", "cores of each database", "WAL of each, MB/s", kept)
    table = Table(*columns, "dollars a month", box=box.MARKDOWN)
    for rate in RATES:
        table.add_row(*row(rate, need(rate, constants, Prices())))
    console.print(table)
    console.print(f"one database ends at {foldable(constants):,.0f} decisions/s, which is all that a replica can fold")


def row(rate: float, found: Need) -> list[str]:
    """A row of the table."""
    stored, cores, wal = f"{found.stored / 1e12:.2f} TB", f"{found.database_cores:.1f}", f"{found.wal / 1e6:.1f}"
    return [f"{rate:,}", str(found.databases), str(found.replicas), cores, wal, stored, f"{found.dollars:,.0f}"]


if __name__ == "__main__":
    main()
