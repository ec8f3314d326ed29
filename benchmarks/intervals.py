"""How often 95 % intervals of an evaluation hold the truth, for rewards from rare to common: a table in Markdown.

    python benchmarks/intervals.py [--target fixed] [--logs 200] [--learning-logs 50] [--rounds 1000]

Every log is of uniform play over four arms whose rewards are 1 with probabilities of 0.5, 0.8, 1.2 and 1.5 times the
rate, and 0 otherwise. The fixed target plays them with probabilities 0.1, 0.2, 0.3 and 0.4; what it earns is known. The
learning one is the default agent on LinUCB; what it earns in as many rounds as it may accept is the mean of real runs.
The last column has what the usual normal interval of IPS would have done for the fixed target.
"""

import argparse
from statistics import mean

import numpy as np

from syndicated import Agent, LinUCB
from syndicated.evaluate import Evaluation, Log, Logged, evaluate
from syndicated.types import Array

RATES = (0.002, 0.01, 0.05, 0.2, 0.5)
SHARES = np.array([0.5, 0.8, 1.2, 1.5])  # of the rate, arm by arm
TARGET = np.array([0.1, 0.2, 0.3, 0.4])
ARMS, FEATURES = len(SHARES), np.eye(len(SHARES))
REAL_RUNS = 60
ESTIMATES = ("logged", "ips", "snips", "dr", "gain")


def uniform_log(rate: float, rounds: int, seed: int) -> Log:
    rng = np.random.default_rng([seed, round(1e6 * rate)])
    places = rng.integers(ARMS, size=rounds)
    rewards = rng.random(rounds) < rate * SHARES[places]
    return Log([Logged(FEATURES, int(a), 1 / ARMS, float(r)) for a, r in zip(places, rewards, strict=True)])


def earned(rate: float, rounds: int) -> float:
    """What a learning agent earns a round, by real runs."""
    paid = []
    for seed in range(REAL_RUNS):
        agent, rng = Agent(LinUCB(dim=ARMS), seed=10_000 + seed), np.random.default_rng([seed, 7])
        for _ in range(rounds):
            decision = agent.decide(FEATURES)
            agent.learn(decision, float(rng.random() < rate * SHARES[decision.arm]))
            paid.append(rate * SHARES[decision.arm])
    return float(np.mean(paid))


def normal_covers(log: Log, truth: float) -> bool:
    values: Array = np.array([TARGET[each.place] * ARMS * each.reward for each in log.rounds])
    return bool(abs(values.mean() - truth) <= 1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def covered(found: list[Evaluation], truth: float, rate: float) -> list[str]:
    """The share of intervals that hold the truth, and the mean width of DR's in units of the rate."""
    truths = {"logged": rate, "gain": truth - rate}
    shares = []
    for name in ESTIMATES:
        wanted, estimates = truths.get(name, truth), [getattr(each, name) for each in found]
        shares.append(mean(each.low <= wanted <= each.high for each in estimates))
    width = mean(each.dr.high - each.dr.low for each in found) / rate
    return [f"{share:.3f}" for share in shares] + [f"{width:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=["fixed", "learning"], action="append", help="default: both")
    parser.add_argument("--rate", type=float, action="append", help=f"default: {', '.join(map(str, RATES))}")
    parser.add_argument("--logs", type=int, default=200, help="of each rate, for the fixed target")
    parser.add_argument("--learning-logs", type=int, default=50, help="for the learning one")
    parser.add_argument("--rounds", type=int, default=1000, help="of a log")
    options = parser.parse_args()
    print("| target | rate | log | IPS | SNIPS | DR | gain | width of DR / rate | normal IPS |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    for target in options.target or ["fixed", "learning"]:
        for rate in options.rate or RATES:
            row = fixed_row(rate, options) if target == "fixed" else learning_row(rate, options)
            print(f"| {target} | {100 * rate:g} % | {' | '.join(row)} |", flush=True)


def fixed_row(rate: float, options: argparse.Namespace) -> list[str]:
    truth, logs = float(TARGET @ SHARES) * rate, [uniform_log(rate, options.rounds, s) for s in range(options.logs)]
    found = [evaluate(log, lambda _: TARGET, rewards=(0.0, 1.0)) for log in logs]
    usual = mean(normal_covers(log, truth) for log in logs)
    return [*covered(found, truth, rate), f"{usual:.3f}"]


def learning_row(rate: float, options: argparse.Namespace) -> list[str]:
    logs = [uniform_log(rate, options.rounds, 1000 + s) for s in range(options.learning_logs)]
    found = [evaluate(log, Agent(LinUCB(dim=ARMS), seed=5 * k), rewards=(0.0, 1.0)) for k, log in enumerate(logs)]
    return [*covered(found, earned(rate, options.rounds // ARMS), rate), ""]


if __name__ == "__main__":
    main()
