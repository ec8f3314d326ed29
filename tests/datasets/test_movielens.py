"""MovieLens as a world: which movies are offered, to whom they appeal, and what they pay."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from syndicated.datasets import movielens as data
from syndicated.datasets._factorise import factorise
from syndicated.environments import MovieLens, Round, movielens
from syndicated.environments.movielens import draw, factors
from syndicated.errors import DataError, InputError
from syndicated.streams import THETA, Stream
from syndicated.types import Array


@pytest.fixture(scope="module")
def users() -> Array:
    return factors(20)[0]


@pytest.fixture(scope="module")
def movies() -> Array:
    return factors(20)[1]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with the ratings and no factors."""
    text = data.movielens().read_text()
    (tmp_path / "movielens-100k.txt").write_text(text)
    monkeypatch.setattr(data, "cache", lambda: tmp_path)
    return tmp_path


def _rounds(seed: int, horizon: int, **settings: object) -> Iterator[Round]:
    return MovieLens(**settings).rounds(seed, horizon)  # type: ignore[arg-type]


# The factors.


def test_the_factors_are_computed_once_and_read_afterwards(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = factors(2)
    assert sorted(file.name for file in empty.iterdir()) == ["movielens-100k-ccd-1-2.factors", "movielens-100k.txt"]

    def again(*_: object, **__: object) -> NoReturn:
        raise AssertionError("computed twice")

    monkeypatch.setattr(movielens, "factorise", again)
    for one, other in zip(first, factors(2), strict=True):
        assert (one == other).all()
        assert one.dtype == np.float64
    assert (first[0].shape, first[1].shape) == ((943, 2), (1682, 2))


def test_the_factors_are_those_of_the_paper_s_settings(users: Array, movies: Array) -> None:
    W, H = factorise(data.ratings(), 943, 1682, rank=20, lam=0.05, sweeps=5, inner=5, seed=0)
    np.testing.assert_array_equal(users, W)
    np.testing.assert_array_equal(movies, H)


@pytest.mark.parametrize("damage", ["cut", "empty", "junk", "flipped"])
def test_damaged_factors_name_the_file_to_remove(damage: str, empty: Path) -> None:
    before = factors(2)
    file = empty / "movielens-100k-ccd-1-2.factors"
    content = file.read_bytes()
    flipped = content[:1_000] + bytes([content[1_000] ^ 1]) + content[1_001:]
    file.write_bytes({"cut": content[:-1], "empty": b"", "junk": b"junk", "flipped": flipped}[damage])
    with pytest.raises(DataError, match=f"^{file} must hold the factors whole; .* remove it to compute them again$"):
        factors(2)
    file.unlink()
    assert factors(2)[0].tobytes() == before[0].tobytes()


PROCESS = """
import hashlib, pathlib, sys
from syndicated.datasets import movielens as data
from syndicated.environments import movielens
data.cache = lambda: pathlib.Path(sys.argv[1])
compute = movielens.factorise
def meet(*arguments, **settings):
    print("computing", flush=True)
    sys.stdin.readline()
    return compute(*arguments, **settings)
movielens.factorise = meet
users, movies = movielens.factors(2)
print(hashlib.sha256(users.tobytes() + movies.tobytes()).hexdigest())
"""


def test_two_processes_that_compute_at_once_do_no_harm(empty: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(empty)]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in both:  # both have found no factors before either may compute them
        assert process.stdout
        assert process.stdout.readline() == "computing\n"
    ends = [process.communicate("go\n") for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert ends[0][0] == ends[1][0]
    assert sorted(file.name for file in empty.iterdir()) == ["movielens-100k-ccd-1-2.factors", "movielens-100k.txt"]


# What a round offers.


def test_the_default_is_the_paper_s_size() -> None:
    world = MovieLens()
    assert (world.dim, world.arms, world.users, world.noise, world.model) == (20, 1000, 100, 1.0, "linear")


def test_every_round_offers_different_movies() -> None:
    offers = [frozenset(seen.arms.tolist()) for seen in _rounds(1, 20)]
    assert {len(offer) for offer in offers} == {1000}
    assert len(set(offers)) == 20


def test_every_movie_is_offered_as_often_as_every_other() -> None:
    counts, rounds, share = np.zeros(1682), 400, 1000 / 1682
    for seen in _rounds(1, rounds):
        counts[seen.arms] += 1
    scores = (counts - rounds * share) / np.sqrt(rounds * share * (1 - share))
    assert np.abs(scores).max() < 4.6
    assert abs(np.mean(scores**2) - 1) < 0.15


def test_movies_that_the_same_users_rated_alike_are_the_same_arm(movies: Array) -> None:
    alike: dict[int, list[tuple[int, int]]] = {movie: [] for movie in range(data.MOVIES)}
    for user, movie, rating in data.ratings().tolist():
        alike[movie].append((user, rating))
    assert len(np.unique(movies, axis=0)) == len(set(map(tuple, alike.values()))) == 1_612


def test_a_draw_is_uniform_over_all_ordered_draws() -> None:
    """Of 5 numbers 3 in order: 60 outcomes, the chi-squared statistic with 59 degrees of freedom."""
    outcomes: dict[tuple[int, ...], int] = {}
    for t in range(12_000):
        drawn = tuple(draw(5, Stream(1, 99, t).uniforms(3)).tolist())
        outcomes[drawn] = outcomes.get(drawn, 0) + 1
    assert len(outcomes) == 60
    assert sum((count - 200) ** 2 / 200 for count in outcomes.values()) < 59 + 4 * np.sqrt(2 * 59)


def test_a_draw_of_all_is_a_shuffle() -> None:
    assert sorted(draw(7, Stream(1, 99).uniforms(7)).tolist()) == list(range(7))
    assert draw(7, np.zeros(7)).tolist() == list(range(7))
    assert draw(1682, np.full(1, 1 - 2.0**-53)).tolist() == [1681]


# What the movies pay.


def _theta(seed: int, users: Array, group: int = 100) -> Array:
    """The mean of the users that are drawn, in a plain loop."""
    numbers = list(range(len(users)))
    total = np.zeros(users.shape[1])
    for i, uniform in enumerate(Stream(seed, THETA).uniforms(group)):
        j = i + int(uniform * (len(numbers) - i))
        numbers[i], numbers[j] = numbers[j], numbers[i]
        total += users[numbers[i]]
    assert len(set(numbers[:group])) == group
    return total / group


def _all_means(seed: int, **settings: object) -> Array:
    """The mean reward of every movie; one round of all movies."""
    (seen,) = _rounds(seed, 1, arms=1682, **settings)
    return seen.means[np.argsort(seen.arms)]


@pytest.mark.parametrize("seed", [1, 2])
def test_linear_means_are_scaled_over_the_catalogue(seed: int, users: Array, movies: Array) -> None:
    values = movies @ _theta(seed, users)
    means = _all_means(seed)
    assert (means.min(), means.max()) == (0.0, 1.0)
    np.testing.assert_allclose(means, (values - min(values)) / (max(values) - min(values)), atol=1e-12)


@pytest.mark.parametrize("seed", [1, 2])
def test_logistic_means_are_the_sigmoid_and_not_rescaled(seed: int, users: Array, movies: Array) -> None:
    means = _all_means(seed, model="logistic")
    np.testing.assert_allclose(means, 1 / (1 + np.exp(-movies @ _theta(seed, users))), atol=1e-12)
    assert means.max() > 0.9


def test_the_group_of_users_may_have_another_size(users: Array, movies: Array) -> None:
    means = _all_means(1, model="logistic", users=3)
    np.testing.assert_allclose(means, 1 / (1 + np.exp(-movies @ _theta(1, users, 3))), atol=1e-12)


def test_a_movie_pays_the_same_mean_in_every_round() -> None:
    every = _all_means(3)
    for seen in _rounds(3, 5):
        assert seen.means.tolist() == every[seen.arms].tolist()


def test_the_catalogue_is_the_movies_factors(movies: Array) -> None:
    assert MovieLens().catalogue().tobytes() == movies.tobytes()


@pytest.mark.parametrize("noise", [1.0, 0.25])
def test_linear_noise_is_normal_with_the_stated_deviation(noise: float) -> None:
    errors = np.array([(seen.rewards - seen.means)[0] for seen in _rounds(1, 3_000, arms=5, noise=noise)]) / noise
    assert abs(errors.mean()) < 4 / np.sqrt(3_000)
    assert abs(errors.std() - 1) < 4 / np.sqrt(2 * 3_000)
    assert abs((np.abs(errors) < 1).mean() - 0.6827) < 4 * np.sqrt(0.6827 * 0.3173 / 3_000)


def test_logistic_rewards_are_0_or_1_with_the_stated_means() -> None:
    seen = list(_rounds(1, 3_000, arms=5, model="logistic"))
    rewards, means = np.array([each.rewards[0] for each in seen]), np.array([each.means[0] for each in seen])
    assert set(rewards.tolist()) == {0.0, 1.0}
    assert abs((rewards - means).mean()) < 4 * np.sqrt((means * (1 - means)).mean() / 3_000)


def test_one_draw_of_noise_serves_all_arms_of_a_round() -> None:
    for seen in _rounds(1, 20, arms=50):
        assert np.ptp(seen.rewards - seen.means) < 1e-12


def test_both_models_meet_the_same_movies() -> None:
    for one, other in zip(_rounds(1, 5), _rounds(1, 5, model="logistic"), strict=True):
        assert one.arms.tobytes() == other.arms.tobytes()


BAD = {
    "arms=1683": "arms must be at most 1682; got 1683",
    "arms=0": "arms must be a whole number of at least 1; got 0",
    "users=944": "users must be at most 943; got 944",
    "users=0": "users must be a whole number of at least 1; got 0",
    "dim=0": "dim must be a whole number of at least 1; got 0",
    "dim=944": "dim must be at most 943; got 944",
    "noise=-1": "noise must be at least 0; got -1.0",
    "model=probit": "model must be 'linear' or 'logistic'; got 'probit'",
}


@pytest.mark.parametrize(("setting", "message"), BAD.items(), ids=BAD)
def test_bad_arguments_are_refused(setting: str, message: str) -> None:
    name, _, value = setting.partition("=")
    with pytest.raises(InputError, match=f"^{message}$"):
        MovieLens(**{name: value if name == "model" else int(value)})  # type: ignore[arg-type]
