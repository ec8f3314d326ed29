"""How many of the largest credits Consensus counts with from the start: the numbers of docs/theory.md.

    python benchmarks/caution.py        prints the mean regret over the seeds for every caution, in some minutes

A world has ARMS one-hot arms with independent normal means, the same in every round, and normal noise. A caution is a
constant of a compiled kernel, so every one is measured in a process with kernels of its own.
"""

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

import numpy as np

CAUTIONS = (0.0, 1.0, 10.0, 30.0)
ARMS, ROUNDS, NOISE = 20, 2_000, 1.0
SEEDS = range(40_001, 40_201)


def regret(seed: int) -> float:
    """Of LinUCB with its candidates tuned by Consensus, in the world of this seed."""
    from syndicated import Agent, Consensus, LinUCB, Space

    rng = np.random.default_rng(seed)
    means, noise = rng.normal(size=ARMS), NOISE * rng.normal(size=ROUNDS)
    agent = Agent(LinUCB(dim=ARMS), Consensus(Space(boldness=[1.0, 2.0, 4.0])), seed=seed, catalogue=np.eye(ARMS))
    missed = 0.0
    for error in noise:
        decision = agent.decide()
        missed += float(means.max() - means[decision.place])
        agent.learn(decision, reward=float(means[decision.place] + error))
    return missed


def measure(caution: float) -> None:
    from syndicated.tuners import consensus

    consensus.CAUTION = caution
    regrets = [regret(seed) for seed in SEEDS]
    error = np.std(regrets, ddof=1) / len(regrets) ** 0.5
    print(f"caution {caution:>4g}: mean regret {np.mean(regrets):.1f}, standard error {error:.1f}", flush=True)


def main() -> None:
    for caution in CAUTIONS:
        with TemporaryDirectory() as folder:
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            subprocess.run([sys.executable, __file__, str(caution)], env=environment, check=True)


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(float(sys.argv[1]))
    else:
        main()
