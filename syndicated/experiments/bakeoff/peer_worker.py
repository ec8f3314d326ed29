"""Passes of other libraries over the rows of data sets: runs in an environment of their own, without this package.

    python peer_worker.py versions      the libraries that are installed, with their versions, as JSON
    python peer_worker.py               a line of JSON for each line that comes: {"file", "player", "seed"}

The file has `x`, a row of numbers a round, `labels`, the number of the class that pays 1, and the number of `arms`. The
answer has the reward of each round, the seconds of all and the bytes that the process had at most, or an `error`.
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

PEERS = ("vowpalwabbit", "contextualbandits", "mabwiser", "river", "coba", "bayesianbandits")
COST_RANGE = "--cb_min_cost 0 --cb_max_cost 1"
REFIT_GROWTH = 1.25  # a model that learns from all rows at once is fitted again when there are this many times as many


class Peer(Protocol):
    def decide(self, x: Any) -> int: ...

    def learn(self, x: Any, arm: int, reward: float) -> None: ...


class VowpalWabbit:
    """Through its text interface: the context crossed with the arm's id, for each arm."""

    def __init__(self, options: str, arms: int, seed: int) -> None:
        from vowpalwabbit import Workspace

        command = f"--cb_explore_adf -q xa --quiet --random_seed {seed} {COST_RANGE} {options}"
        self._workspace = Workspace(command)
        self._rng = np.random.default_rng(seed)
        self._ids = [f"|a {arm}" for arm in range(arms)]
        self._shared, self._probability = "", 1.0

    def decide(self, x: Any) -> int:
        self._shared = "shared |x " + " ".join([f"{i}:{value:.6g}" for i, value in enumerate(x.tolist()) if value])
        chances = np.cumsum(self._workspace.predict([self._shared, *self._ids]))
        arm = min(int(np.searchsorted(chances, self._rng.random() * chances[-1], side="right")), len(chances) - 1)
        self._probability = float(chances[arm] - (chances[arm - 1] if arm else 0.0))
        return arm

    def learn(self, x: Any, arm: int, reward: float) -> None:
        ids = list(self._ids)
        ids[arm] = f"0:{1.0 - reward}:{self._probability} {ids[arm]}"
        self._workspace.learn([self._shared, *ids])


class ContextualBandits:
    """A class of `contextualbandits.online` that learns row by row."""

    def __init__(self, name: str, arms: int, seed: int) -> None:
        online = import_module("contextualbandits.online")
        self._model = getattr(online, name)(arms, random_state=seed)

    def decide(self, x: Any) -> int:
        return int(self._model.predict(x[None])[0])

    def learn(self, x: Any, arm: int, reward: float) -> None:
        self._model.partial_fit(x[None], np.array([arm]), np.array([reward]))


class RefittedContextualBandits:
    """A class of `contextualbandits.online` that is fitted to all rows, each time that there are a quarter more."""

    def __init__(self, name: str, arms: int, seed: int) -> None:
        from sklearn.linear_model import LogisticRegression

        online = import_module("contextualbandits.online")
        self._model = getattr(online, name)(LogisticRegression(solver="lbfgs", max_iter=200), arms, random_state=seed)
        for jobs in {"njobs", "njobs_arms", "njobs_samples"} & set(vars(self._model)):
            setattr(self._model, jobs, 1)
        self._rows: list[tuple[Any, int, float]] = []
        self._next, self._rng = 2 * arms, np.random.default_rng(seed)
        self._fitted, self._arms = False, arms

    def decide(self, x: Any) -> int:
        return int(self._model.predict(x[None])[0]) if self._fitted else int(self._rng.integers(self._arms))

    def learn(self, x: Any, arm: int, reward: float) -> None:
        self._rows.append((x, arm, reward))
        if len(self._rows) >= self._next:
            rows, arms, rewards = (np.array(column) for column in zip(*self._rows, strict=True))
            self._model.fit(rows, arms, rewards)
            self._fitted, self._next = True, max(int(self._next * REFIT_GROWTH), self._next + 1)


class MABWiser:
    """A learning policy of MABWiser with its defaults."""

    def __init__(self, name: str, arms: int, seed: int) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        self._mab = MAB(list(range(arms)), getattr(LearningPolicy, name)(), seed=seed)
        self._fitted = False

    def decide(self, x: Any) -> int:
        return int(self._mab.predict(x[None])) if self._fitted else 0

    def learn(self, x: Any, arm: int, reward: float) -> None:
        learn = self._mab.partial_fit if self._fitted else self._mab.fit
        learn([arm], [reward], x[None])
        self._fitted = True


class River:
    """River's disjoint LinUCB with its defaults."""

    def __init__(self, name: str, arms: int, seed: int) -> None:
        self._policy = getattr(import_module("river.bandit"), name)(seed=seed)
        self._ids = list(range(arms))
        self._context: dict[int, float] = {}

    def decide(self, x: Any) -> int:
        self._context = dict(enumerate(x.tolist()))
        return int(self._policy.pull(self._ids, context=self._context))

    def learn(self, x: Any, arm: int, reward: float) -> None:
        self._policy.update(arm, self._context, reward)


class Coba:
    """Coba's LinUCB with its defaults: one model of the arm's id crossed with the context."""

    def __init__(self, name: str, arms: int, seed: int) -> None:
        self._learner = getattr(import_module("coba.learners"), name)(seed=seed)
        self._actions = [tuple(float(arm == other) for other in range(arms)) for arm in range(arms)]
        self._probability = 1.0

    def decide(self, x: Any) -> int:
        action, self._probability = self._learner.predict(x.tolist(), self._actions)[:2]
        return self._actions.index(action)

    def learn(self, x: Any, arm: int, reward: float) -> None:
        self._learner.learn(x.tolist(), self._actions[arm], reward, self._probability)


class BayesianBandits:
    """A policy of bayesianbandits with its defaults, over a normal regression of unit precisions for each arm."""

    def __init__(self, name: str, arms: int, seed: int) -> None:
        library = import_module("bayesianbandits")
        own = [library.Arm(arm, learner=library.NormalRegressor(alpha=1.0, beta=1.0)) for arm in range(arms)]
        self._agent = library.ContextualAgent(own, getattr(library, name)(), random_seed=seed)

    def decide(self, x: Any) -> int:
        return int(self._agent.pull(x[None])[0])

    def learn(self, x: Any, arm: int, reward: float) -> None:
        self._agent.update(x[None], np.array([reward]))


Maker = Callable[[str, int, int], Peer]
# By label: the package, and who makes the player of what.
PLAYERS: dict[str, tuple[str, Maker, str]] = {
    "VW epsilon": ("vowpalwabbit", VowpalWabbit, "--epsilon 0.05"),
    "VW bag": ("vowpalwabbit", VowpalWabbit, "--bag 5"),
    "VW cover": ("vowpalwabbit", VowpalWabbit, "--cover 5"),
    "VW regcb": ("vowpalwabbit", VowpalWabbit, "--regcb"),
    "VW regcbopt": ("vowpalwabbit", VowpalWabbit, "--regcbopt"),
    "VW squarecb": ("vowpalwabbit", VowpalWabbit, "--squarecb"),
    "contextualbandits LinUCB": ("contextualbandits", ContextualBandits, "LinUCB"),
    "contextualbandits AdaptiveGreedy": ("contextualbandits", RefittedContextualBandits, "AdaptiveGreedy"),
    "MABWiser LinUCB": ("mabwiser", MABWiser, "LinUCB"),
    "MABWiser LinGreedy": ("mabwiser", MABWiser, "LinGreedy"),
    "river LinUCBDisjoint": ("river", River, "LinUCBDisjoint"),
}

# For small problems only: milliseconds a round at 10 arms and 20 columns.
SMALL_PLAYERS: dict[str, tuple[str, Maker, str]] = {
    "coba LinUCB": ("coba", Coba, "LinUCBLearner"),
    "bayesianbandits UCB": ("bayesianbandits", BayesianBandits, "UpperConfidenceBound"),
    "bayesianbandits TS": ("bayesianbandits", BayesianBandits, "ThompsonSampling"),
}


def play(peer: Peer, x: Any, labels: Any) -> dict[str, Any]:
    """What was earned in each round, and the seconds of the processor that all of them took."""
    rewards, started = [], time.process_time()
    for row, label in zip(x, labels.tolist(), strict=True):
        arm = peer.decide(row)
        reward = 1.0 if arm == label else 0.0
        peer.learn(row, arm, reward)
        rewards.append(int(reward))
    return {"rewards": rewards, "seconds": time.process_time() - started}


def peak_memory() -> int | None:
    """The most bytes that this process has had in memory; None where the system does not say.

    `getrusage` would not do: on Linux a new process begins with the peak of the one that started it.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)


def versions() -> dict[str, str]:
    """The version of every peer that is installed. None is imported: on a busy machine that takes minutes."""
    found = {}
    for name in PEERS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def main(arguments: list[str]) -> None:
    if arguments == ["versions"]:
        print(json.dumps(versions()))
        return
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        rows = np.load(request["file"])
        _, make, what = (PLAYERS | SMALL_PLAYERS)[request["player"]]
        outcome = play(make(what, int(rows["arms"]), request["seed"]), rows["x"], rows["labels"])
        return outcome | {"memory": peak_memory()}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    main(sys.argv[1:])
