"""A log of 6,000 decisions by an agent with a floor, and what other configurations would have earned in its place."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from syndicated import Agent, Fixed, LinUCB, Space
from syndicated.cli import main
from syndicated.environments import Linear

FLOOR = 0.4  # the share of decisions that are uniform over the arms
world = Linear(dim=5, arms=4)
agent = Agent(LinUCB(dim=5), Fixed(Space(alpha=[3.0], lam=[1.0])))
lines, rng = [], np.random.default_rng(1)
for t, now in enumerate(world.rounds(seed=1, horizon=6000)):
    decision = agent.decide(now.arms)
    place = int(rng.integers(world.arms)) if rng.random() < FLOOR else decision.arm
    propensity = FLOOR / world.arms + (1 - FLOOR) * (place == decision.arm)
    reward = float(now.rewards[place])
    if place == decision.arm:
        agent.learn(decision, reward)
    logged = {"X": now.arms.tolist(), "place": place, "propensity": propensity}
    lines.append({"seq": 2 * t + 1, "bandit": "news", "kind": "decide", **logged})
    lines.append({"seq": 2 * t + 2, "bandit": "news", "kind": "reward", "ref": 2 * t + 1, "learn": reward})

with TemporaryDirectory() as folder:
    log = Path(folder, "log.jsonl")
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    main(["evaluate", str(log), "--tuner", "Consensus", "--tuner", "Theory"])
