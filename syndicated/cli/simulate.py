"""`syndicated simulate`: play a simulated world against a running service."""

import argparse
import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from syndicated._validation import check_count, check_number
from syndicated.cli.options import DEFAULT_URL, URL
from syndicated.environments import ENVIRONMENTS
from syndicated.environments.base import Environment, Round
from syndicated.errors import InputError, SyndicatedError
from syndicated.policies import POLICIES
from syndicated.registry import find
from syndicated.spec import build
from syndicated.tuners import TUNERS
from syndicated.types import Array, NamedArms

if TYPE_CHECKING:
    from syndicated.client import AsyncClient

KEY = "SYNDICATED_KEY"  # an environment variable
CLEAR_LINE = "\r\x1b[K"  # empties the current line of a terminal
MAX_ROUNDS, MAX_CONCURRENCY = 1_000_000, 64
TIMEOUT, PATIENCE = 30.0, 120.0  # seconds: nobody waits for a simulation, so it need not give up early


@dataclass(slots=True)
class Tally:
    """What was earned, and what a player who draws arms uniformly would expect in the same rounds."""

    rounds: int = 0
    reward: float = 0.0
    regret: float = 0.0
    uniform_reward: float = 0.0
    uniform_regret: float = 0.0

    def add(self, round_: Round, arm: int) -> None:
        best, average = float(round_.means.max()), float(round_.means.mean())
        self.rounds += 1
        self.reward += float(round_.rewards[arm])
        self.regret += best - float(round_.means[arm])
        self.uniform_reward += average
        self.uniform_regret += best - average

    def line(self) -> str:
        n = max(1, self.rounds)
        rates = f"reward a round {self.reward / n:.3f} (uniform {self.uniform_reward / n:.3f})"
        return f"{self.rounds} rounds: {rates}, regret {self.regret:.1f} (uniform {self.uniform_regret:.1f})"


def add_simulate(play: argparse.ArgumentParser) -> None:
    play.add_argument(
        "--url", default=os.environ.get(URL, DEFAULT_URL), help=f"of the service (default: {URL}, or {DEFAULT_URL})"
    )
    play.add_argument("--key", default=os.environ.get(KEY), help=f"a key with the scope admin (default: {KEY})")
    play.add_argument("--bandit", metavar="NAME", help="created if there is none (default: simulated-ENVIRONMENT)")
    play.add_argument("--environment", default="Linear")
    play.add_argument("--arms", type=int, help="in a round (default: as many as the environment has)")
    play.add_argument("--policy", default="LinUCB", help="of a new bandit")
    play.add_argument("--tuner", default="Consensus", help="of a new bandit")
    play.add_argument("--log", choices=["chosen", "all"], help="the arms whose features it logs; `evaluate` needs all")
    play.add_argument("--floor", type=float, help="the share of decisions that play a random arm")
    play.add_argument("--rounds", type=int, default=1000, help="default 1000")
    play.add_argument("--delay", type=int, default=0, help="after how many rounds a reward is sent (default 0)")
    play.add_argument("--concurrency", type=int, default=1, help="rounds that are played at the same time (default 1)")
    play.add_argument("--seed", type=int, default=1, help="of the world (default 1)")
    play.set_defaults(command=run)


def run(options: argparse.Namespace) -> None:
    """Play, and print what was earned."""
    if not options.key:
        raise InputError(f"--key or {KEY} must be a key of the service; got none")
    rounds = _at_most("--rounds", check_count("--rounds", options.rounds), MAX_ROUNDS)
    check_count("--delay", options.delay, low=0)
    _at_most("--concurrency", check_count("--concurrency", options.concurrency), MAX_CONCURRENCY)
    arms = {} if options.arms is None else {"arms": options.arms}
    world = build(ENVIRONMENTS, {"name": options.environment, **arms})
    if not world.arms:
        raise InputError(f"the service takes arms one by one; {options.environment} has infinitely many")
    name = options.bandit or f"simulated-{type(world).__name__.lower()}"
    from syndicated.client import ClientError

    try:
        asyncio.run(_simulate(options, world, name, rounds))
    except (ClientError, ExceptionGroup) as error:
        raise _own_error(error, options.url) from None


def _own_error(error: Exception, url: str) -> Exception:
    """The first error of a group, and one of the client as one of this package."""
    from syndicated.client import ClientError, Unavailable

    first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
    if isinstance(first, Unavailable):
        return SyndicatedError(f"{first}; --url is {url}")
    return SyndicatedError(str(first)) if isinstance(first, ClientError) else first


def _at_most(what: str, value: int, most: int) -> int:
    if value > most:
        raise InputError(f"{what} must be at most {most}; got {value}")
    return value


async def _simulate(options: argparse.Namespace, world: Environment, name: str, rounds: int) -> None:
    from syndicated.client import AsyncClient

    play = world.rounds(check_count("--seed", options.seed, low=0), rounds)
    wanted = _wanted(options, world)
    agent = {
        "policy": {"name": find(POLICIES, options.policy).__name__},
        "tuner": {"name": find(TUNERS, options.tuner).__name__},
    }
    async with AsyncClient(options.url, options.key, timeout=TIMEOUT, patience=PATIENCE) as client:
        try:
            await _ensure_bandit(client, name, wanted, agent)
            tally = await _play(client, name, play, world.catalogue(), options, _progress(rounds))
        finally:
            if sys.stderr.isatty():
                print(CLEAR_LINE, end="", file=sys.stderr, flush=True)
        print(f"{tally.line()}\ndashboard: {client.url}/bandits/{name}")


def _wanted(options: argparse.Namespace, world: Environment) -> dict[str, Any]:
    """What the bandit's spec must have, also if the bandit exists."""
    wanted: dict[str, Any] = {"features": {"kind": "vector", "dim": world.dim}}
    if options.log is not None:
        wanted["log"] = options.log
    if options.floor is not None:
        wanted["floor"] = check_number("--floor", options.floor, low=0.0, high=1.0)
    return wanted


async def _ensure_bandit(client: "AsyncClient", name: str, wanted: dict[str, Any], agent: dict[str, Any]) -> None:
    """Create the bandit, or check the one that exists."""
    from syndicated.client import Missing

    try:
        found = (await client.get(name))["spec"]
    except Missing:
        await client.create(name, wanted | agent)
        return
    for part, value in wanted.items():
        if found[part] != value:
            raise InputError(f"the bandit {name} must have {part} {value}; it has {found[part]}")


def _named(arms: Any, catalogue: Array | None) -> tuple[list[str], Array]:
    """The ids of arms, which are their places or numbers where they have none, and their features."""
    if isinstance(arms, NamedArms):
        return [str(id_) for id_ in arms.ids], arms.x
    if catalogue is None:
        return [str(place) for place in range(len(arms))], arms
    return [str(number) for number in arms.tolist()], catalogue[arms]


async def _play(
    client: "AsyncClient",
    name: str,
    play: Iterator[Round],
    catalogue: Array | None,
    options: argparse.Namespace,
    show: Callable[[Tally], None],
) -> Tally:
    """Play the rounds, some at the same time. A reward is sent after `options.delay` later decisions."""
    tally, late = Tally(), deque[tuple[str, float]]()

    async def play_rounds() -> None:
        for round_ in play:
            ids, table = _named(round_.arms, catalogue)
            answer = await client.decide(name, table, ids=ids)
            if answer.decision_id is None:
                raise SyndicatedError(f"the service stopped answering after {tally.rounds} rounds")
            arm = ids.index(answer.arm)
            tally.add(round_, arm)
            show(tally)
            late.append((answer.decision_id, float(round_.rewards[arm])))
            while len(late) > options.delay:
                await client.reward_now(name, *late.popleft())

    async with asyncio.TaskGroup() as group:
        for _ in range(options.concurrency):
            group.create_task(play_rounds())
    for decision_id, reward in late:
        await client.reward_now(name, decision_id, reward)
    return tally


def _progress(rounds: int) -> Callable[[Tally], None]:
    """Prints ten lines in all; on a terminal, one line that is rewritten a hundred times."""
    terminal = sys.stderr.isatty()
    every = max(1, rounds // (100 if terminal else 10))
    start, end = (CLEAR_LINE, "") if terminal else ("", "\n")

    def show(tally: Tally) -> None:
        if tally.rounds % every == 0:
            print(f"{start}{tally.line()}", end=end, file=sys.stderr, flush=True)

    return show
