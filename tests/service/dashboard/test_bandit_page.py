"""The page of a bandit in each of its states."""

from pathlib import Path
from typing import Any

import pytest
from support.dashboard_site import AXES, HOSTILE, Site, tell, visit

from syndicated.service.bandits.bandit import Bandit
from syndicated.service.bandits.messages import Create
from syndicated.service.dashboard import formatting
from syndicated.service.dashboard.bandit_view import settings
from syndicated.service.dashboard.decision_view import draws
from syndicated.service.http.routes import BANDIT


def test_a_fresh_bandit_waits_for_its_first_decision(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("fresh")
        page = await visit(site, "fresh")
        assert "No decision yet" in page.text
        assert '-d \'{"arms": [ … ]}' in page.text
        assert page.values("role").count("img") == 0
        assert "boldness: 1, 2, 4 (the policy's default)" in page.text
        assert "none yet" in (await site.get("/")).text

    tell(tmp_path, story)


def test_nothing_tuned_is_told_and_the_first_request_can_be_copied(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.service.admin.create("", Create(name="open"))
        page = await visit(site, "open")
        assert "ArmUCB, nothing tuned" in page.plain
        assert '-d \'{"context": {"hour": 9}, "arms": ["a", "b"]}' in page.text

    tell(tmp_path, story)


def test_the_warm_up_is_told(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("warm", tuner={"name": "Syndicated", "warmup": 50}, space=AXES)
        await site.play("warm", 20)
        page = await visit(site, "warm")
        assert "warm-up: 30 decisions to go" in page.text
        assert "Warm-up: a random arm" in page.text
        assert "all equal" in page.text

    tell(tmp_path, story)


def test_thousands_of_decisions_are_shown_in_a_small_page(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("news", tuner={"name": "Syndicated"}, space=AXES, holdout=0.2, floor=0.05)
        await site.play("news", 3000)
        for seconds in (0.0081, 0.0263):
            site.app.metrics.observe(BANDIT + "/decide", 200, seconds)
        page = await visit(site, "news")
        assert "3,000" in page.text
        assert page.values("role").count("img") == 4
        assert len(page.source) < 100_000
        for said in ("Hold-out: the fallback", "Floor: a random arm", "than one of the hold-out", "26.3 ms / 26.3 ms"):
            assert said in page.plain
        assert page.tags["tr"] > 20 + 2 * 4
        listed = await site.get("/")
        assert "LinUCB, Syndicated" in listed.text
        assert "/bandits/news" in listed.values("href")

    tell(tmp_path, story)


def test_names_are_those_of_the_registry_and_natural_units_are_explained(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b", policy={"name": "linucb", "delta": 0.2}, tuner={"name": "consensus"}, floor=0.25)
        await site.play("b", 5)
        page = await visit(site, "b")
        assert "LinUCB tuned by Consensus" in page.plain
        assert "Boldness: how far the model explores, in standard errors of what it expects" in page.plain
        assert "LinUCB, Consensus" in (await site.get("/")).text
        said = dict(settings(site.service.state.bandit("b")))
        assert (said["Policy"], said["Tuner"]) == ("LinUCB (delta = 0.2)", "Consensus")
        assert (said["Hold-out"], said["Floor of random arms"]) == ("none", "25% of the decisions")
        assert said["Chosen by itself"] == "; ".join(site.service.state.bandit("b").agent.policy.chosen.values())
        assert said["Chosen by itself"].startswith("penalty ")
        assert said["Chosen by itself"] in page.plain

    tell(tmp_path, story)


def test_alarms_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bandit, "alarms", lambda self: [f"{HOSTILE} is at the edge"])

    async def story(site: Site) -> None:
        await site.create("b")
        await site.decide("b")
        page = await visit(site, "b")
        assert f"{HOSTILE} is at the edge" in page.text
        assert page.source.index("is at the edge") < page.source.index("Decisions</dt>")
        assert "▲ 1" in (await site.get("/")).text

    tell(tmp_path, story)


def test_an_apprentice_shows_how_often_it_agrees(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("learner", mode="apprentice")
        await site.play("learner", 40, played="arm-2")  # before it knows anything, all arms are alike to the model
        made = await site.play("learner", 40, played="arm-2")
        agreed = site.service.state.bandit("learner").history.agreed
        page = await visit(site, "learner")
        assert f"Agrees with the caller {formatting.percent(agreed / 80)}" in page.plain
        assert 0 < agreed < 80
        decision = await site.get(f"/bandits/learner/decisions/{made[-1].decision_id}")
        assert "The caller played the arm arm-2 , one of 5. The model would have played" in decision.plain

    tell(tmp_path, story)


def test_sgd_ts_draws_two_axes_apart(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        space = {"eta0": [0.1, 1.0], "alpha1": [0.1, 1.0, 10.0]}
        await site.create("sgd", policy={"name": "SGDTS", "tau": 5}, tuner={"name": "Syndicated"}, space=space)
        made = await site.play("sgd", 60)
        page = await visit(site, "sgd")
        assert "Probability of each eta0" in page.text
        assert "Probability of each alpha1" in page.text
        assert "The tuner draws these hyper-parameters together" not in page.text
        decision = await site.get(f"/bandits/sgd/decisions/{made[-1].decision_id}")
        assert "Score without exploration" in decision.text
        drawn = draws((await site.service.decisions.decision("sgd", made[-1].decision_id)).decided)
        assert len(drawn) == 2
        assert all(draw.values in decision.text for draw in drawn)

    tell(tmp_path, story)


def test_a_joint_space_is_shown_by_its_marginals_and_as_a_list(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("joint", space={**AXES, "memory": [0.99, 1.0]})
        made = await site.play("joint", 60)
        page = await visit(site, "joint")
        for name in ("alpha", "lam", "memory"):
            assert f"Probability of each {name}" in page.text
        assert "All 12 candidates" in page.text
        decision = await site.get(f"/bandits/joint/decisions/{made[-1].decision_id}")
        assert "of 12 candidates of the tuner would have played this arm" in decision.plain

    tell(tmp_path, story)


@pytest.mark.parametrize(
    "spec", [{"tuner": {"name": "Syndicated"}, "space": {"alpha": [1]}}, {"tuner": {"name": "Theory"}}]
)
def test_one_candidate_is_nothing_to_choose(tmp_path: Path, spec: dict[str, Any]) -> None:
    async def story(site: Site) -> None:
        await site.create("one", **spec)
        await site.decide("one")
        page = await visit(site, "one")
        assert "the tuner has nothing to choose" in page.plain
        assert "The latest decision was made with" in page.plain
        assert "There is no reward yet." in page.text
        assert page.values("role").count("img") == 1

    tell(tmp_path, story)


def test_a_large_joint_space_lists_the_likeliest_only(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        space = {"alpha": [k / 10 for k in range(10)], "lam": [k + 1.0 for k in range(10)]}
        await site.create("large", tuner={"name": "TwoLayer"}, space=space)
        await site.decide("large")
        page = await visit(site, "large")
        assert "The likeliest 50 of 100 candidates" in page.text
        assert page.text.count("alpha = ") < 60

    tell(tmp_path, story)


def test_many_candidates_keep_their_labels_apart(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("wide", tuner={"name": "Syndicated"}, space={"alpha": [k / 10 for k in range(20)]})
        await site.play("wide", 30)
        page = await visit(site, "wide")
        assert "the other 8 are grey" in page.text

    tell(tmp_path, story)


def test_a_bandit_that_is_off_says_so(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("off", mode="off", fallback="arm", fallback_arm="b")
        decision = await site.decide("off")
        assert "off: the fallback decides" in (await visit(site, "off")).text
        page = await site.get(f"/bandits/off/decisions/{decision.decision_id}")
        assert "The fallback chose the arm b , one of 3. The bandit was switched off." in page.plain

    tell(tmp_path, story)


def test_a_new_epoch_begins_with_nothing_and_old_decisions_say_so(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        old = await site.decide("b")
        await site.service.admin.update("test", "b", {"seed": 3})
        assert "No decision yet in this epoch" in (await visit(site, "b")).plain
        page = await site.get(f"/bandits/b/decisions/{old.decision_id}")
        assert "earlier epoch" in page.text

    tell(tmp_path, story)
