"""Randomness has an address: streams against numpy's own Philox, and against their distributions."""

import math

import numpy as np
import pytest
from scipy import stats

from syndicated.streams import ARMS, NOISE, POLICY, TUNER, Stream, philox

BIG = 2**63 + 12345
ADDRESSES = [(0, 0, 0), (1, 2, 3), (7, POLICY, 10**7), (BIG, BIG + 1, BIG + 2), (2**64 - 1, 0, 2**64 - 1)]


def numpy_words(seed: int, purpose: int, round_: int, blocks: int) -> list[int]:
    """numpy counts up before it draws, so its counter starts one before (block 0, round)."""
    counter = ((round_ << 64) - 1) % 2**256
    generator = np.random.Philox(key=np.array([seed, purpose], dtype=np.uint64), counter=counter)
    return [int(word) for word in generator.random_raw(4 * blocks)]


@pytest.mark.parametrize("address", ADDRESSES)
def test_words_are_those_of_numpys_philox(address: tuple[int, int, int]) -> None:
    words = [philox(*(np.uint64(part) for part in (*address, block))) for block in range(5)]
    assert [int(word) for block in words for word in block] == numpy_words(*address, blocks=5)


@pytest.mark.parametrize("address", ADDRESSES)
def test_uniforms_are_the_upper_53_bits_of_the_words(address: tuple[int, int, int]) -> None:
    expected = [(word >> 11) * 2.0**-53 for word in numpy_words(*address, blocks=3)]
    assert Stream(*address).uniforms(10).tolist() == expected[:10]


def test_normals_are_box_and_mullers_of_the_uniforms() -> None:
    u = Stream(3, NOISE, 8).uniforms(8).tolist()
    expected = []
    for first, second in zip(u[::2], u[1::2], strict=True):
        radius = math.sqrt(-2 * math.log(1 - first))
        expected += [radius * math.cos(2 * math.pi * second), radius * math.sin(2 * math.pi * second)]
    np.testing.assert_allclose(Stream(3, NOISE, 8).normals(7), expected[:7], rtol=1e-14, atol=1e-15)


def test_uniforms_lie_in_0_1_and_are_uniform() -> None:
    draws = Stream(5, ARMS, 1).uniforms(200_000)
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    assert stats.kstest(draws, "uniform").pvalue > 0.01


def test_normals_have_the_moments_and_the_distribution_of_a_standard_normal() -> None:
    n = 200_000
    draws = Stream(5, NOISE, 1).normals(n)
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs(np.mean(draws**power) - moment) < 4 * math.sqrt(variance / n)
    assert stats.kstest(draws, "norm").pvalue > 0.01


def test_neighbouring_normals_are_not_correlated() -> None:
    n = 200_000
    draws = Stream(6, NOISE, 1).normals(n)
    for lag in (1, 2, 3, 4):
        assert abs(np.mean(draws[lag:] * draws[:-lag])) < 4 / math.sqrt(n)


def test_first_draws_of_consecutive_rounds_are_uniform_and_not_correlated() -> None:
    n = 20_000
    draws = np.array([Stream(9, TUNER, t).uniforms(1)[0] for t in range(n)])
    assert stats.kstest(draws, "uniform").pvalue > 0.01
    assert abs(np.mean((draws[1:] - 0.5) * (draws[:-1] - 0.5))) < 4 / 12 / math.sqrt(n)


@pytest.mark.parametrize("first", [1, 3, 4, 5, 8])
def test_a_stream_goes_on_in_the_block_after_its_last_call(first: int) -> None:
    whole = Stream(1, TUNER, 2).uniforms(40)
    stream = Stream(1, TUNER, 2)
    stream.uniforms(first)
    start = 4 * math.ceil(first / 4)
    assert stream.uniforms(6).tolist() == whole[start : start + 6].tolist()


def test_normals_and_uniforms_of_one_stream_share_its_place() -> None:
    whole = Stream(1, TUNER, 2).uniforms(12)
    stream = Stream(1, TUNER, 2)
    stream.normals(4)
    assert stream.uniforms(8).tolist() == whole[4:].tolist()


def test_different_addresses_give_different_draws() -> None:
    numbers = (0, 1, 2, 2**32, 2**63)
    draws = [tuple(Stream(s, p, t).uniforms(4)) for s in numbers for p in numbers for t in numbers]
    assert len({value for draw in draws for value in draw}) == 4 * len(numbers) ** 3


def test_draws_do_not_depend_on_what_was_drawn_elsewhere_or_before() -> None:
    addresses = [(seed, purpose, t) for seed in (1, 2) for purpose in (TUNER, POLICY) for t in range(5)]
    forward = {address: Stream(*address).normals(3).tolist() for address in addresses}
    backward = {address: Stream(*address).normals(3).tolist() for address in reversed(addresses)}
    assert forward == backward
    open_ = [Stream(*address) for address in addresses]
    interleaved = [[float(stream.uniforms(1)[0]) for stream in open_] for _ in range(2)]
    assert interleaved[1] == [Stream(*address).uniforms(5)[4] for address in addresses]
