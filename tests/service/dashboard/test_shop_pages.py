"""What the pages show of the shop: arms, decisions that are searched for, contexts, epochs and kept models."""

import asyncio
from pathlib import Path

import pytest
from support.dashboard_site import HOSTILE, Site, tell, visit

from syndicated.service.bandits.messages import Arm, DecideRequest, RewardRequest
from syndicated.service.dashboard import arms_view, bandit_view, decision_search

NAMED = {"kind": "open"}


async def play_arms(site: Site, name: str, arms: list[str], start: int = 0) -> list[str]:
    """One decision of the caller for each of these arms; their ids."""
    given: list[str | Arm] = [*sorted({*arms})]
    asked = [DecideRequest(arms=given, played=arm, event_id=f"e{k}") for k, arm in enumerate(arms, start)]
    made = await asyncio.gather(*[site.service.decisions.decide(name, each) for each in asked])
    return [decision.decision_id for decision in made]


def test_arms_are_listed_by_share_folded_paged_and_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms_view, "ARMS_PER_PAGE", 3)
    monkeypatch.setattr(bandit_view, "TOP_ARMS", 2)

    async def story(site: Site) -> None:
        await site.create("b", features=NAMED, mode="apprentice")
        assert "No arm was played in this epoch yet." in (await site.get("/bandits/b/arms")).plain
        await play_arms(site, "b", ["Tea"] * 5 + ["coffee"] * 3 + ["cocoa"] + [HOSTILE])
        page = await visit(site, "b")
        assert "The other 2 arms together have 20% of the decisions. All 4 arms" in page.plain
        assert page.plain.index("Tea 50% 50% 5") < page.plain.index("coffee 30% 30% 3")
        first = await site.get("/bandits/b/arms")
        assert "4 arms were played in this epoch" in first.plain
        assert "Page 1 of 2" in first.plain
        last = await site.get("/bandits/b/arms?page=99")
        assert (HOSTILE in last.text, "Page 2 of 2" in last.plain) == (True, True)
        found = await site.get("/bandits/b/arms?q=COF")
        assert "1 of 4 arms" in found.plain
        assert "Tea" not in found.plain
        assert "has this text in its id" in (await site.get("/bandits/b/arms?q=water")).plain
        assert "page must be a whole number" in (await site.get("/bandits/b/arms?page=-1", 422)).plain.lower()

    tell(tmp_path, story)


@pytest.mark.parametrize(("late", "sign", "arrow"), [(1.0, 1, "▲ +"), (0.0, -1, "▼ -"), (0.5, 0, "")])
def test_a_trend_has_an_arrow_once_it_is_clear(tmp_path: Path, late: float, sign: int, arrow: str) -> None:
    async def story(site: Site) -> None:
        await site.create("b", features=NAMED, mode="apprentice")
        for start in range(0, 160, 20):
            for id_ in await play_arms(site, "b", ["tea"] * 20, start):
                reward = float(int(id_.partition("-")[0], 16) % 2) if start < 80 else late
                await site.service.decisions.reward("b", RewardRequest(decision_id=id_, reward=reward))
            (row,) = arms_view.arm_rows(site.service.state.bandit("b").history, ["tea"])
            assert row.direction in (0, sign)
            assert row.direction == 0 or start >= 80
        assert row.direction == sign
        assert arrow in (await visit(site, "b")).plain

    tell(tmp_path, story)


def test_decisions_are_paged_and_found_by_id_event_subject_and_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decision_search, "DECISIONS_PER_PAGE", 4)
    monkeypatch.setattr(decision_search, "CHUNK_DECISIONS", 3)
    monkeypatch.setattr(decision_search, "MAX_SCANNED", 6)

    async def story(site: Site) -> None:
        await site.create("b", features=NAMED, mode="apprentice")
        assert "There is no decision." in (await site.get("/bandits/b/decisions")).plain
        ids = await play_arms(site, "b", ["tea"] + ["coffee"] * 9)
        mine = await site.decide("b", arms=["tea", "coffee"], played="coffee", subject="ann")
        paid = RewardRequest(decision_id=mine.decision_id, reward=0.625, event_id="paid-1")
        await site.service.decisions.reward("b", paid)
        shown: list[str] = []
        path = "/bandits/b/decisions"
        for _ in range(3):
            page = await site.get(path)
            shown += [link.rpartition("/")[2] for link in page.values("href") if "/decisions/" in link]
            path = next((link for link in page.values("href") if "before=" in link), "")
        assert (shown, path) == ([mine.decision_id, *reversed(ids)], "")
        by_reward = await site.get("/bandits/b/decisions?q=paid-1")
        assert f"/bandits/b/decisions/{mine.decision_id}" in by_reward.values("href")
        for text in (ids[3], "e3"):
            assert f"/bandits/b/decisions/{ids[3]}" in (await site.get(f"/bandits/b/decisions?q={text}")).values("href")
        found = await site.get("/bandits/b/decisions?q=ann")
        assert "0.625" in found.plain
        assert "6 decisions were looked through." in found.plain
        away = await site.get("/bandits/b/decisions?q=tea")
        assert "None of these 6 decisions" in away.plain
        older = await site.get(next(link for link in away.values("href") if "before=" in link))
        assert f"/bandits/b/decisions/{ids[0]}" in older.values("href")
        nothing = await site.get(f"/bandits/b/decisions?q=x&before={int(ids[2].partition('-')[0], 16)}")
        assert "None of the 2 decisions" in nothing.plain
        await site.create("other", features=NAMED)
        assert "None of the 0" in (await site.get(f"/bandits/other/decisions?q={ids[3]}")).plain
        await site.service.admin.erase("", "ann")
        assert mine.decision_id not in (await site.get("/bandits/b/decisions")).source

    tell(tmp_path, story)


def test_a_decision_shows_its_context_where_the_log_has_it(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("all", features=NAMED, log="all")
        wide = {"hour": 9, "name": HOSTILE, "who": {"age": 40}} | {f"f{k}": k for k in range(40)}
        for context, said in ((wide, 'who {"age":40}'), (None, "The caller gave no context.")):
            made = await site.decide("all", arms=["a", "b"], context=context)
            page = await site.get(f"/bandits/all/decisions/{made.decision_id}")
            assert said in page.plain
        assert "With log: all in the bandit's spec" not in page.plain
        await site.create("chosen", features=NAMED)
        made = await site.decide("chosen", arms=["a", "b"], context=wide)
        page = await site.get(f"/bandits/chosen/decisions/{made.decision_id}")
        assert "The context is not in the log" in page.plain

    tell(tmp_path, story)


def test_what_the_bandit_earns_more_is_told_or_why_it_is_not_known(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("none")
        await site.decide("none")
        assert "no decision is held out, and none is random" in (await visit(site, "none")).plain
        await site.create("soon", floor=0.5)
        await site.decide("soon")
        said = "There are not yet rewards enough to compare the bandit with uniform play."
        assert said in (await visit(site, "soon")).plain
        await site.play("soon", 100)
        assert "than one of uniform play (the floor of random arms)" in (await visit(site, "soon")).plain

    tell(tmp_path, story)


def test_epochs_kept_models_and_roll_backs_are_listed_and_marked(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        await site.create("b")
        await site.play("b", 60)
        old = await site.service.admin.save_model("b")
        await site.service.admin.update("", "b", {"seed": 3})
        page = await visit(site, "b")
        assert "Epochs, the current one first" in page.plain
        assert "of an earlier epoch" in page.plain
        await site.play("b", 60)
        kept = await site.service.admin.save_model("b")
        await site.service.admin.load_model("", "b", kept.version)
        await site.play("b", 60)
        page = await visit(site, "b")
        marks = ("kept model", "a model was loaded: version", "epoch 2 began", "Reward per decision, all epochs")
        assert all(mark in page.text for mark in marks)
        assert f"kept model {kept.version:,}" in page.text
        assert f"kept model {old.version:,}" not in page.text
        assert [f"/bandits/b/models/{each.version}/restore" in page.values("href") for each in (kept, old)] == [
            True,
            False,
        ]
        later = await site.get("/bandits/b?by=time")
        assert "time, UTC" in later.text
        assert all(mark in later.text for mark in marks)

    tell(tmp_path, story)
