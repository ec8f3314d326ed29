"""The sections of the scoreboard's page on every policy and on every tuner, in small worlds."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from syndicated.experiments._experiment import Experiment
from syndicated.experiments._formatting import spec_text, table
from syndicated.experiments.scoreboard._policy_worlds import BASE_POLICY, POLICY_GROUP, SLOW_POLICIES, policy_worlds
from syndicated.experiments.scoreboard._ratios import World, marked, overall
from syndicated.experiments.scoreboard._tuner_worlds import CANDIDATES, TUNER_GROUP, UNTUNED, tuner_worlds

POLICY_READING = f"""\
`Agent(policy)` for every policy, given nothing but the number of features: its mean regret as a multiple of
{BASE_POLICY}'s on the same seeds, in small worlds. Few rounds and few repeats: this says where a policy stands, not
which one is best. **Bold** is better than {BASE_POLICY}, *slanted* is worse, the rest is not settled. Policies that
take only rewards from 0 to 1 play where there are no others, and the slow ones ({", ".join(SLOW_POLICIES)}) in two
worlds. None of these worlds is what kernels and networks are for, and ArmTS and ArmUCB have one model here, for arms
without ids.
"""
TUNER_READING = f"""\
Every tuner with LinUCB and the candidates {spec_text({"name": "Space", "space": CANDIDATES})}, in small worlds of many
kinds: its mean regret as a multiple of that of {UNTUNED}, which learns nothing, on the same seeds. **Bold** is better,
*slanted* is worse, the rest is not settled: few rounds and few repeats, in which tuners that are proven for long runs
and that keep a model for each candidate can show little. Fixed plays the boldness that LinUCB advises, Theory its
alpha(t): neither has these candidates. Tuners that need the range of rewards are told it.
"""


class Section(NamedTuple):
    """A group of small worlds: what is compared in them, with what, the words above the table, and whether it names
    candidates, which may be the same for all."""

    group: str
    worlds: Callable[[], list[Experiment]]
    compared: str
    base: str
    reading: str
    candidates: bool


SECTIONS = (
    Section(POLICY_GROUP, policy_worlds, "policy", BASE_POLICY, POLICY_READING, candidates=True),
    Section(TUNER_GROUP, tuner_worlds, "tuner", UNTUNED, TUNER_READING, candidates=False),
)


def small_sections(worlds: Sequence[World]) -> str:
    """The sections whose worlds were played."""
    parts = [(section, [world for world in worlds if world.group == section.group]) for section in SECTIONS]
    return "\n".join(_text(section, own) for section, own in parts if own)


def _text(section: Section, worlds: Sequence[World]) -> str:
    """Everything that is compared in every world, the least geometric mean of its ratios first."""
    names = dict.fromkeys(label for world in worlds for label in world.regrets)
    texts = [section.compared, *["candidates"] * section.candidates]
    head = [*texts, *(world.experiment.title for world in worlds), "geometric mean"]
    rows = [_row(name, section, worlds) for name in sorted(names, key=lambda n: _place(n, section.base, worlds))]
    played = "\n".join(played_text(world, section.base) for world in worlds)
    return f"## {section.group}\n\n{section.reading}\n{table(head, rows, texts=len(texts))}\n{played}\n"


def _row(name: str, section: Section, worlds: Sequence[World]) -> list[str]:
    if name == section.base:
        ratios = ["1"] * (len(worlds) + 1)
    else:
        ratios = [marked(each.ratio(name, section.base)) for each in worlds]
        ratios.append(marked(overall(worlds, name, section.base)))
    tuner = next(each.experiment.tuners[name] for each in worlds if name in each.experiment.tuners)
    return [f"`{name}`", *[spec_text(tuner)] * section.candidates, *ratios]


def _place(name: str, base: str, worlds: Sequence[World]) -> float:
    mean = overall(worlds, name, base)
    return mean.value if mean else 1.0


def played_text(world: World, base: str) -> str:
    """A world, its size, and what the base's regret is there."""
    e = world.experiment
    regret = world.regrets[base].mean()
    late = [f"rewards {e.delay} rounds late"] * (e.delay > 0) + [f"{100 * e.lost:g} % of them lost"] * (e.lost > 0)
    size = ", ".join([spec_text(e.environment), *late, f"{e.horizon:,} rounds", f"{e.repeats} repeats"])
    return f"- `{e.name}`, {e.title}: {size}, seeds from {e.seed}; {base}'s mean regret is {regret:,.1f}."
