"""A counter-example to Proposition 1 of the paper, played by the paper's own tuners.

Two hyper-parameters with five candidates each. The reward of a round depends on the two chosen candidates alone, so
every assumption of the proposition holds, even without noise:

    both are the first candidate     1.0    the joint best
    exactly one of them is           0.0
    neither is                       0.6

Changing one hyper-parameter while the other is spread over its candidates costs reward. One EXP3 for each
hyper-parameter (Syndicated) therefore settles on 0.6, and its regret against the joint best grows in proportion to T.
One EXP3 over the 25 pairs (TwoLayer) stays below its bound.
"""

import math

from syndicated import Space, Syndicated, TwoLayer
from syndicated.streams import TUNER, Stream

CANDIDATES = range(5)
SPACE = Space(first=CANDIDATES, second=CANDIDATES)


def reward(first: float, second: float) -> float:
    if first == second == 0:
        return 1.0
    return 0.0 if 0 in (first, second) else 0.6


def regret(tuner: Syndicated, seed: int) -> float:
    """What the joint best would have earned, less what the tuner did."""
    total = 0.0
    for t in range(tuner.horizon):
        choice = tuner.choose(Stream(seed, TUNER, t))
        y = reward(**choice.params)
        tuner.learn(choice, y)
        total += 1.0 - y
    return total


def bound(tuner: Syndicated) -> float:
    """The sum over the EXP3s of 2 sqrt((e - 1) n T log n)."""
    sizes = [len(axis) for axis in tuner.axes()]
    return sum(2 * math.sqrt((math.e - 1) * n * tuner.horizon * math.log(n)) for n in sizes)


def main(seeds: int = 3) -> None:
    print(f"{'T':>6}  {'tuner':<10}  {'regret':>6}  {'bound claimed':>13}")
    for horizon in (10_000, 40_000):
        for kind in (Syndicated, TwoLayer):
            mean = sum(regret(kind(SPACE, horizon), seed) for seed in range(seeds)) / seeds
            print(f"{horizon:>6}  {kind.__name__:<10}  {mean:>6.0f}  {bound(kind(SPACE, horizon)):>13.0f}")


if __name__ == "__main__":
    main()
