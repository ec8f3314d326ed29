"""The list of bandits."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.dashboard_site import Site, tell, visit

from syndicated.service.commit.batch import Batch
from syndicated.service.dashboard import handlers
from syndicated.service.dashboard.list_view import BanditRow


def test_the_empty_list_tells_how_to_begin(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        page = await site.get("/")
        assert "curl http://test/v1/bandits" in page.text
        assert "syndicated simulate --url http://test" in page.text
        assert "the keeper" in page.text

    tell(tmp_path, story)


def test_retired_bandits_stand_apart(tmp_path: Path) -> None:
    async def story(site: Site) -> None:
        for name in ("old", "older", "new"):
            await site.create(name)
        await site.decide("old")
        await site.service.admin.retire("test", "old")
        await site.service.admin.retire("test", "older")
        page = await site.get("/")
        assert page.tags["table"] == 2
        assert page.source.index("/bandits/new") < page.source.index("Retired") < page.source.index("/bandits/old")
        assert "retired" in (await visit(site, "old")).text
        assert "is retired and makes no more decisions" in (await visit(site, "older")).text
        await site.service.admin.retire("test", "new")
        assert "There is no bandit in use" in (await site.get("/")).plain

    tell(tmp_path, story)


def test_a_long_list_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, read = list[int](), handlers._read_rows

    def counted(batch: Batch, ids: Sequence[int]) -> list[BanditRow]:
        pieces.append(len(ids))
        return read(batch, ids)

    monkeypatch.setattr(handlers, "LIST_BANDITS", 2)
    monkeypatch.setattr(handlers, "_read_rows", counted)

    async def story(site: Site) -> None:
        for k in range(5):
            await site.create(f"bandit{k}")
        page = await site.get("/")
        assert all(f"/bandits/bandit{k}" in page.source for k in range(5))
        assert pieces == [2, 2, 1]

    tell(tmp_path, story)
