"""Why a decision was made, and what its owner is warned of."""

import numpy as np
import pytest
from support.core_service import Harness, PlayCore

from syndicated._argmax import explain


def test_alarms_tell_of_an_edge_and_of_a_collapse(play_core: PlayCore) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(tuner={"name": "TwoLayer"}, space={"alpha": [0.1, 1.0, 10.0], "lam": [1.0]})
        bandit = harness.service.state.bandit("b")
        assert bandit.alarms() == []
        bandit.history.learned = 1000
        assert bandit.alarms() == []
        weights = [np.array([0.05, 0.9, 0.05]), np.array([0.95, 0.04, 0.01]), np.array([1e-9, 1.0 - 2e-9, 1e-9])]
        found = []
        for p in weights:
            bandit.agent.tuner.probabilities = lambda p=p: [p]  # type: ignore[method-assign,misc]
            found.append(bandit.alarms())
        assert [len(each) for each in found] == [0, 1, 1]
        assert "alpha=0.1" in found[1][0]
        assert "collapsed" in found[2][0]
        del bandit.agent.tuner.probabilities
        bandit.history.learned = 0

    play_core(test)


@pytest.mark.parametrize("seed", range(3))
def test_an_arm_is_explained_by_what_sorting_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(300):
        K = int(rng.integers(1, 8))
        scores, bonus = rng.integers(0, 4, K).astype(float), rng.integers(0, 3, K).astype(float)
        played, probabilities, arm = rng.integers(0, K, 5), rng.random(5) / 4, int(rng.integers(K))
        numbers = np.empty((1 + min(3, K), 3))
        table = np.stack((rng.random(K), scores - bonus, scores))
        explain(numbers, table, 2, 1, played, probabilities, arm)
        best = np.argsort(-scores, kind="stable")[:3].tolist()
        top = best if arm in best else [*best[:-1], arm]
        chance = min(
            1.0, sum(p for p, other in zip(probabilities.tolist(), played.tolist(), strict=True) if other == arm)
        )
        explored = scores[arm] - bonus[arm] < (scores - bonus).max()
        assert numbers[0, :2].tolist() == [pytest.approx(chance), explored]
        assert numbers[1:].tolist() == [[a, scores[a], bonus[a]] for a in top]


@pytest.mark.parametrize("policy", ["LinUCB", "LinTS", "UCBGLM", "SGDTS"])
def test_a_decision_is_explained_by_what_was_expected(play_core: PlayCore, policy: str) -> None:
    async def test(harness: Harness) -> None:
        await harness.create(policy={"name": policy} | ({"tau": 2} if policy == "SGDTS" else {}))
        for _ in range(12):
            reply = await harness.decide()
            await harness.reward(reply.decision_id, float(reply.arm == "b"))
        agent = harness.service.state.bandit("b").agent
        reply = await harness.decide()
        decided = (await harness.service.decisions.decision("b", reply.decision_id)).decided
        predicted = agent.policy.predict(np.eye(3), decided.params)
        assert {top.arm: top.predicted for top in decided.top} == pytest.approx(
            {"abc"[arm]: predicted[arm] for arm in range(3)}
        )
        assert decided.explored == (predicted["abc".index(decided.arm)] < predicted.max())
        assert [top.score for top in decided.top] == sorted([top.score for top in decided.top], reverse=True)

    play_core(test)
