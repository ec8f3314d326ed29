"""An experiment is data: a world, a policy, several tuners, and sizes. A task is one run of one tuner in one world."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from syndicated._validation import check_count, check_number
from syndicated.agent import Agent, build_agent
from syndicated.environments import ENVIRONMENTS, Environment
from syndicated.policies import POLICIES
from syndicated.registry import Registry, find
from syndicated.spec import Spec, build, complete
from syndicated.tuners import TUNERS

RESULTS_VERSION = 12  # raise it when a change of the code changes what tasks give


@dataclass(frozen=True)
class Experiment:
    """Every tuner plays the same `repeats` worlds, with the seeds seed, seed + 1, ...

    The reward of a round is learned `delay` rounds later, 0 means at once. The share `lost` of rewards never comes,
    those of the same rounds for every tuner. `policies` has, by label of the tuner, other settings of the policy for
    single tuners. A run that is not `watched` is faster, but does not record the tuner's probabilities and the parts of
    the regret.
    """

    name: str
    title: str
    environment: Spec
    policy: Spec
    tuners: Mapping[str, Spec]
    horizon: int = 10_000
    repeats: int = 10
    seed: int = 1
    delay: int = 0
    watched: bool = True
    published: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    policies: Mapping[str, Spec] = field(default_factory=dict)
    lost: float = 0.0

    def __post_init__(self) -> None:
        check_count("horizon", self.horizon)
        check_count("repeats", self.repeats)
        check_count("seed", self.seed, low=0)
        check_count("delay", self.delay, low=0)
        check_number("lost", self.lost, low=0.0, high=1.0)

    def tasks(self) -> "list[Task]":
        """One task for each repeat and tuner; the first repeat of all tuners comes first."""
        parts = {label: self._parts(label) for label in self.tuners}
        how: dict[str, Any] = {"delay": self.delay, "watched": self.watched, "lost": self.lost}
        return [
            Task(self.name, label, repeat, self.environment, *pair, self.horizon, self.seed + repeat, **how)
            for repeat in range(self.repeats)
            for label, pair in parts.items()
        ]

    def _parts(self, label: str) -> tuple[Spec, Spec]:
        """The policy and the tuner of this label. Said in the spec, a default space is part of the task's key."""
        return complete(self.policies.get(label, self.policy), self.tuners[label], horizon=self.horizon)


@dataclass(frozen=True)
class Task:
    """One policy with one tuner in one world."""

    experiment: str
    tuner_name: str
    repeat: int
    environment: Spec
    policy: Spec
    tuner: Spec
    horizon: int
    seed: int
    delay: int = 0
    watched: bool = True
    lost: float = 0.0

    @property
    def key(self) -> str:
        """Equal for tasks with equal results, and only for them; another version of a plug-in is another task.

        Fields at their default are left out, so that adding a field does not change old keys.
        """
        names = ["environment", "policy", "tuner", "horizon", "seed"]
        names += ["delay"] * (self.delay > 0) + ["watched"] * (not self.watched) + ["lost"] * (self.lost > 0)
        what = {name: getattr(self, name) for name in names}
        plugins = self._plugins()
        what |= {"plugins": plugins} if plugins else {}
        text = json.dumps({"version": RESULTS_VERSION, **what})
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def _plugins(self) -> list[str]:
        """The other packages that the parts come from, with their versions."""
        return [package for registry, name in _parts(self) if (package := registry.package(name))]

    def world(self) -> Environment:
        return build(ENVIRONMENTS, self.environment)

    def agent(self) -> Agent:
        return build_agent(self.policy, self.tuner, seed=self.seed, catalogue=self.world().catalogue())

    def __str__(self) -> str:
        return f"{self.experiment}, tuner {self.tuner_name}, repeat {self.repeat} (seed {self.seed})"


def world_key(task: Task) -> str:
    """Equal for tasks that meet the same rounds."""
    return json.dumps([task.environment, task.seed, task.horizon])


def source_files(task: Task) -> set[Path]:
    """Where the world's, the policy's and the tuner's own code is; a class of a notebook has no file."""
    modules = [sys.modules[find(registry, name).__module__] for registry, name in _parts(task)]
    return {Path(file) for module in modules if (file := getattr(module, "__file__", None))}


def _parts(task: Task) -> list[tuple[Registry[Any], str]]:
    specs = (ENVIRONMENTS, task.environment), (POLICIES, task.policy), (TUNERS, task.tuner)
    return [(registry, spec["name"]) for registry, spec in specs]
