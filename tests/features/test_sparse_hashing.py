"""Hashed objects as sparse rows: the columns and values of the table that would have them all."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from syndicated import Agent, InputError, LinUCB
from syndicated._sparse import check_rows
from syndicated.features import Arm, Encoder
from syndicated.features import _encoders as encoders
from syndicated.features._hashing import hash_text
from syndicated.types import Array

DIM = 10_001  # the least that is sparse
CONTEXT: dict[str, Any] = {"hour": 9.5, "country": "fr", "likes": ["tea", "cake"]}
ARMS = [Arm("tea", features={"price": 2.5, "tags": ["hot", "green"]}), Arm("milk", features={}), Arm("coffee")]
HASHED = {"kind": "hashed", "dim": 2**18}


def encoder(**spec: Any) -> Encoder:
    return Encoder.from_spec({"kind": "hashed", "dim": DIM} | spec)


def table(rows: Array, dim: int) -> Array:
    """Sparse rows with all their zeros."""
    X = np.zeros((len(rows), dim))
    for x, (columns, values) in zip(X, check_rows(rows, dim), strict=True):
        x[columns[values != 0].astype(int)] = values[values != 0]
    return X


@pytest.mark.parametrize("spec", [{}, {"seed": 7}, {"interactions": False}, {"ids": False}])
def test_sparse_rows_are_the_table_with_the_same_columns(spec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = ARMS[:2] if spec.get("ids") is False else ARMS
    rows = encoder(**spec).table(CONTEXT, arms)
    monkeypatch.setattr(encoders, "MAX_COLUMNS", DIM)
    dense = encoder(**{"ids": True} | spec)
    assert not dense.sparse
    assert (table(rows, DIM) == dense.table(CONTEXT, arms)).all()


def test_tokens_in_one_column_are_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "MAX_COLUMNS", 1)
    rows = encoder(dim=3).table(CONTEXT, ARMS)
    assert rows.shape == (3, 2, 3)
    monkeypatch.undo()
    assert (table(rows, 3) == encoder(dim=3, ids=True).table(CONTEXT, ARMS)).all()


def test_a_row_has_the_context_the_arm_its_id_and_their_pairs() -> None:
    rows = encoder().table({"hour": 9, "country": "fr"}, [Arm("tea", features={"price": 2.5}), Arm("coffee")])
    assert [np.count_nonzero(values) for _, values in rows] == [2 + 2 + 4, 2 + 1 + 2]
    assert hash_text(0, "id\x1ftea") % DIM in rows[0, 0]


def test_ids_of_numbers_are_not_their_digits() -> None:
    one, digit = encoder().table(None, [Arm(1), Arm("1")])
    assert one.tolist() != digit.tolist()


def test_up_to_ten_thousand_columns_ids_are_no_tokens_unless_asked_for() -> None:
    plain, named = encoder(dim=10_000), encoder(dim=10_000, ids=True)
    same = [Arm("a", features={"price": 1}), Arm("b", features={"price": 1})]
    assert (plain.sparse, plain.takes_ids, encoder().takes_ids) == (False, False, True)
    assert len(np.unique(plain.table(CONTEXT, same), axis=0)) == 1
    assert len(np.unique(named.table(CONTEXT, same), axis=0)) == 2


def test_prepared_arms_give_the_same_rows() -> None:
    mine = encoder()
    assert (mine.table(CONTEXT, [mine.prepare(arm) for arm in ARMS]) == mine.table(CONTEXT, ARMS)).all()


def test_nothing_at_all_is_a_row_without_entries() -> None:
    assert encoder(ids=False).table(None, [Arm("a", features={})]).shape == (1, 2, 0)


WRONG: list[tuple[Any, Any, str]] = [
    ({"a": 1e49}, [Arm("a", features={"b": 1e49})], "arms[0] must have columns of at most 1e+50 in size"),
    (
        {"list": [str(k) for k in range(1000)]},
        [Arm("a"), Arm("b", features={"list": [str(k) for k in range(999)]})],
        "the arms, times the tokens and pairs of one of them, must be at most 2000000; got 2 times 1002000",
    ),
    (None, [Arm(None)], "arms[0].id must be a string or a whole number; got None"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("context", "arms", "message"), WRONG)
def test_what_cannot_be_hashed_is_refused(context: Any, arms: list[Arm], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        encoder().table(context, arms)


# agents


def test_an_agent_for_arms_learns_hashed_clicks(tmp_path: Path) -> None:
    random, agent = np.random.default_rng(1), Agent.for_arms(encoder=HASHED, seed=2)
    liked, hits = {"fr": "coffee", "in": "tea", "us": "soda"}, []
    for _ in range(300):
        country = str(random.choice(list(liked)))
        decision = agent.decide({"country": country}, arms=["tea", {"id": "coffee", "price": 2.5}, "soda"])
        hits.append(decision.arm == liked[country])
        agent.learn(decision, float(hits[-1]))
    assert np.mean(hits[-100:]) > 0.9
    agent.save(tmp_path / "agent")
    waiting = agent.decide({"country": "fr"}, arms=["tea", "soda"])
    twin = Agent.load(tmp_path / "agent")
    assert twin.decide({"country": "fr"}, arms=["tea", "soda"]).to_json() == waiting.to_json()
    twin.learn(twin.decision_from_json(waiting.to_json()), 0.0)
    agent.learn(waiting, 0.0)
    assert twin.state() == agent.state()
    assert len(waiting.to_json()) < 1000


@pytest.mark.parametrize("policy", ["LinUCB", {"name": "LinUCB"}, LinUCB(dim=3)])
def test_a_policy_of_tables_is_refused_for_sparse_features(policy: Any) -> None:
    message = "features.dim must be at most 10000 with LinUCB, which takes no sparse rows; got 262144"
    with pytest.raises(InputError, match=re.escape(message)):
        Agent.for_arms(encoder=HASHED, policy=policy)
