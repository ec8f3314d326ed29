"""The section of the scoreboard's page on every policy with nothing set."""

from collections.abc import Sequence

from syndicated.experiments._formatting import spec_text, table
from syndicated.experiments.scoreboard._policy_worlds import BASE_POLICY, POLICY_GROUP, SLOW_POLICIES
from syndicated.experiments.scoreboard._ratios import World, marked, overall

POLICY_READING = f"""\
`Agent(policy)` for every policy, given nothing but the number of features: its mean regret as a multiple of
{BASE_POLICY}'s on the same seeds, in small worlds. Few rounds and few repeats: this says where a policy stands, not
which one is best. **Bold** is better than {BASE_POLICY}, *slanted* is worse, the rest is not settled. Policies that
take only rewards from 0 to 1 play where there are no others, and the slow ones ({", ".join(SLOW_POLICIES)}) in two
worlds. None of these worlds is what kernels and networks are for, and ArmTS and ArmUCB have one model here, for arms
without ids.
"""


def policy_section(worlds: Sequence[World]) -> str:
    """Every policy in every world, the least geometric mean of its ratios first; empty if none was played."""
    if not worlds:
        return ""
    names = dict.fromkeys(label for world in worlds for label in world.regrets)
    head = ["policy", "candidates", *(world.experiment.title for world in worlds), "geometric mean"]
    rows = [_row(name, worlds) for name in sorted(names, key=lambda name: _place(name, worlds))]
    played = "\n".join(map(_said, worlds))
    return f"## {POLICY_GROUP}\n\n{POLICY_READING}\n{table(head, rows, texts=2)}\n{played}\n"


def _row(name: str, worlds: Sequence[World]) -> list[str]:
    if name == BASE_POLICY:
        ratios = ["1"] * (len(worlds) + 1)
    else:
        ratios = [marked(each.ratio(name, BASE_POLICY)) for each in worlds]
        ratios.append(marked(overall(worlds, name, BASE_POLICY)))
    tuner = next(each.experiment.tuners[name] for each in worlds if name in each.experiment.tuners)
    return [f"`{name}`", spec_text(tuner), *ratios]


def _place(name: str, worlds: Sequence[World]) -> float:
    mean = overall(worlds, name, BASE_POLICY)
    return mean.value if mean else 1.0


def _said(world: World) -> str:
    e = world.experiment
    regret = world.regrets[BASE_POLICY].mean()
    size = f"{e.horizon:,} rounds, {e.repeats} repeats, seeds from {e.seed}"
    return f"- `{e.name}`, {e.title}: {spec_text(e.environment)}, {size}; {BASE_POLICY}'s mean regret is {regret:,.1f}."
