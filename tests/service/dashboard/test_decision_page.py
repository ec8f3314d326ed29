"""The page of a decision, from its draw to its reward."""

from pathlib import Path

import pytest
from support.dashboard_site import AXES, HOSTILE, Site, tell

from syndicated.service.bandits.messages import Create, DecideRequest
from syndicated.service.dashboard import formatting
from syndicated.service.dashboard.decision_view import decision_view


def test_a_first_decision_is_no_exploration_and_says_that_nothing_was_learned(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        first = await site.decide("b")
        await site.reward("b", first, 1.0)
        second = await site.decide("b")
        pages = [await site.get(f"/bandits/b/decisions/{each.decision_id}") for each in (first, second)]
        assert "No other arm was expected to give more." in pages[0].plain
        assert ["the model had learned nothing yet" in page.plain for page in pages] == [True, False]

    tell(tmp_path, story)


def test_a_decision_is_told_from_its_draw_to_its_reward(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", tuner={"name": "Syndicated"}, space=AXES)
        decision = await site.decide("b", event_id="visit 1", subject="somebody")
        site.clock.now += 90
        await site.reward("b", decision, 0.25)
        page = await site.get(f"/bandits/b/decisions/{decision.decision_id}")
        for said in (
            f"The model chose the arm {decision.arm} , one of 3.",
            f"Propensity {formatting.percent(decision.propensity)}",
            formatting.params_text(decision.params),
            "visit 1",
            "somebody",
            "1.5 min Reward 0.25: learned.",
            "All arms",
            f"{decision.arm} (played)",
        ):
            assert said in page.plain
        why = decision_view(
            site.service.state.bandit("b"), await site.service.decisions.decision("b", decision.decision_id)
        )
        assert why.same_scale
        for bar in why.bars:
            assert bar.plain + bar.bonus == pytest.approx(bar.score)
            assert bar.predicted == pytest.approx(bar.plain)

    tell(tmp_path, story)


def test_held_activated_closed_and_late_rewards_are_told_in_order(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("held", deferred=True, window=100, default_reward=0.0)
        held, bare = await site.decide("held"), await site.decide("held")
        await site.reward("held", held, 1.0)
        await site.service.decisions.activate("held", held.decision_id)
        await site.service.decisions.activate("held", bare.decision_id)
        site.clock.now += 200
        for _ in range(2):  # the clock is read after a request
            await site.service.read(lambda batch: None)
        await site.reward("held", bare, 1.0)
        told = (await site.get(f"/bandits/held/decisions/{held.decision_id}")).plain
        assert told.index("Reward 1: held until the decision is activated.") < told.index("Activated: its reward 1 was")
        told = (await site.get(f"/bandits/held/decisions/{bare.decision_id}")).plain
        assert told.index("Activated.") < told.index("The reward window closed: 0 was learned.")
        assert "Reward 1: came after the window had closed; logged, not learned." in told
        assert "Late rewards 1" in (await site.get("/bandits/held")).plain

    tell(tmp_path, story)


def test_what_the_model_does_not_learn_from_is_counted(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", holdout=1.0)
        decision = await site.decide("b")
        await site.reward("b", decision, 1.0)
        page = await site.get(f"/bandits/b/decisions/{decision.decision_id}")
        assert "Reward 1: counted, not learned." in page.text
        assert page.tags["svg"] == 0

    tell(tmp_path, story)


def test_named_arms_are_shown_by_their_ids(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.service.admin.create("test", Create(name="news"))
        for t in range(12):
            asked = DecideRequest(arms=["sports", "politics", HOSTILE], context={"hour": t, "country": "fr"})
            decision = await site.service.decisions.decide("news", asked)
            await site.reward("news", decision, float(decision.arm == "politics"))
        page = await site.get(f"/bandits/news/decisions/{decision.decision_id}")
        assert f"The model chose the arm {decision.arm} , one of 3." in page.plain
        assert all(name in page.plain for name in ("sports", "politics"))
        page = await site.get("/bandits/news")
        for said in ("open", "ArmUCB", "Fixed", "boldness: 1", "logistic", "Arms that are not registered accepted"):
            assert said in page.plain

    tell(tmp_path, story)
