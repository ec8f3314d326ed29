"""A news page that learns what its visitors read: sections with ids, visitors with fields, clicks.

Visitors are simulated. Sections come and go: one is added half way, one is retired. Prints the share of visitors who
clicked, of the agent's choices and of random ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from syndicated import Agent

VISITS = 4_000
COUNTRIES = ["fr", "de", "br"]
# What a visitor likes depends on the hour, the age and the country: the log-odds of a click on each section.
TASTES: dict[str, Callable[[dict[str, Any]], float]] = {
    "sports": lambda v: -1.5 + 1.5 * (v["country"] == "br") + 0.8 * (v["hour"] > 18),
    "politics": lambda v: -1.5 + 0.06 * ((v["age"] or 45) - 45) + 0.8 * (v["hour"] < 10),
    "tech": lambda v: -1.2 - 0.05 * ((v["age"] or 45) - 40),
    "film": lambda v: -2.0 + 2.2 * (v["country"] == "fr") + 0.5 * v["member"],
}


def visitor(rng: np.random.Generator) -> dict[str, Any]:
    """Who came, when, and from where. Some do not say how old they are."""
    age = None if rng.random() < 0.2 else int(rng.integers(18, 80))
    member = bool(rng.random() < 0.3)
    return {"age": age, "hour": int(rng.integers(24)), "country": str(rng.choice(COUNTRIES)), "member": member}


def sections(visit: int) -> list[Any]:
    """What is on offer: tech is behind a paywall, film is new, and politics closes down."""
    listed: list[Any] = ["sports", {"id": "tech", "price": 2.5}]
    return [*listed, "film" if visit > VISITS // 2 else "politics"]


def clicks(rng: np.random.Generator, section: str, who: dict[str, Any]) -> bool:
    return bool(rng.random() < 1 / (1 + np.exp(-TASTES[section](who))))


def play(seed: int = 1) -> tuple[Agent, float, float]:
    """An agent that has seen all visits, and the share of clicks that it and random choices got."""
    rng = np.random.default_rng(seed)
    agent = Agent(seed=seed)
    mine, random = 0, 0
    for visit in range(VISITS):
        who, arms = visitor(rng), sections(visit)
        decision = agent.decide(who, arms)
        clicked = clicks(rng, decision.arm, who)
        agent.learn(decision, reward=float(clicked))
        other = arms[rng.integers(len(arms))]
        random += clicks(rng, other if isinstance(other, str) else other["id"], who)
        mine += clicked
        if visit == VISITS // 2:
            agent.retire("politics")
    return agent, mine / VISITS, random / VISITS


def main() -> None:
    agent, mine, random = play()
    print(f"clicks: {mine:.1%} of visits, {random:.1%} with random sections")
    print("sections with a model:", ", ".join(map(str, agent.arms)))


if __name__ == "__main__":
    main()
