"""The scoreboard as one page of markdown: the ratios in every world, the bars, and how they were computed."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from syndicated._files import write
from syndicated._formatting import ratio_number
from syndicated.experiments._experiment import Experiment
from syndicated.experiments._formatting import spec_text, table, time_text, versions
from syndicated.experiments._results import MIN_REPEATS, RESAMPLES
from syndicated.experiments.scoreboard._arm_worlds import ARM_GROUP
from syndicated.experiments.scoreboard._ratios import (
    Ratio,
    TunerRow,
    World,
    findings,
    marked,
    overall,
    trade_off,
    world_rows,
)
from syndicated.experiments.scoreboard._small_sections import played_text, small_sections
from syndicated.experiments.scoreboard._worlds import (
    ABLATIONS,
    ALL_WITH_INTERCEPT,
    ALWAYS_INTERCEPT,
    BASE_TUNER,
    BASE_WITH_INTERCEPT,
    BEST_FIXED,
    BOARD,
    BOLDNESS_2,
    FORESEEN_FIXED,
    NO_EVIDENCE,
    NO_LINK,
    NO_STRIDE,
    NO_UNITS,
    OTHER_POLICY,
    OUR_TUNER,
    RIVAL_TUNER,
    candidates,
    labels,
)
from syndicated.spec import Spec

INTRO = f"""\
# Scoreboard

The mean regret of every tuner in every kind of world, divided by that of {BASE_TUNER} on the same seeds. Less is
better. **{OUR_TUNER}** is what `Agent(policy)` does if it is told nothing. `make scoreboard` runs all of it and writes
this page; nothing here is written by hand.

![Every tuner's ratio in every world](scoreboard.svg)
"""
READING = f"""\
## How to read it

- **Ratios** are ratios of means: a tuner's mean regret divided by the other's. They are paired: all tuners of a
  world meet the same arms and the same noise.
- **95% intervals** come from {RESAMPLES:,} resamples of the repeats, the same ones for both tuners. The fewer the
  repeats, the farther out the percentiles are taken, see [experiments.md](experiments.md). For the geometric mean,
  worlds with the same number of repeats are resampled together, because the same seed gives them the same
  parameter. On skewed made-up regrets the intervals of 20 repeats cover the truth in 94.6% of all cases, those of 8
  in 93.6%.
- **Verdict**: better or worse if the interval excludes 1, otherwise not settled; fewer than {MIN_REPEATS} repeats
  settle nothing. The intervals are not corrected for their number: of twenty comparisons between equals, about one
  comes out as settled.
- **{BEST_FIXED}** is the fixed value in natural units with the least mean over these same repeats: a boldness, for
  SGDTS a boldness and a stride. Nobody knows it in advance, and the best of many looks better than it is: where several
  values are equally good, it is the luckiest.
  **{FORESEEN_FIXED}** plays in every repeat the value that was best on all others: what one would earn who had played
  this kind of world before.
- **{OUR_TUNER}** is `Agent(policy)`: for LinUCB, LinTS and SGDTS the one point that the policy advises, for UCBGLM
  Consensus on its own space. It plays with the policy's defaults, which include an intercept, and so do
  Consensus and the fixed values. The paper's tuners have the paper's candidates, and in the worlds that are played as
  in the paper also the paper's setting of the policy; {BASE_WITH_INTERCEPT} is {BASE_TUNER} there with the intercept.
- **{OTHER_POLICY}** is `Agent(LinTS(dim))`, in one world only: beside LinUCB where rewards come 2,000 rounds late.
- {RIVAL_TUNER}, Corral and TL tune one hyper-parameter, as in the paper; the others tune all. In the world `range`, the
  tuners that need to know the range of rewards are told it.
"""
TRADE_OFF_READING = f"""\
Mean regret as a multiple of {BEST_FIXED}'s, where boldness is what is fixed: one value for all worlds, and what others
play; in the figure a fixed value is its number, and the stroke ends at what nine of ten worlds have at most. Why no
choice meets both bars is told in [default.md](default.md#what-stands-in-the-way).

![The worst world against the geometric mean of all](scoreboard-trade-off.svg)
"""
ABLATION_READING = f"""\
Mean regret of {OUR_TUNER} with parts taken away, as a multiple of that of {OUR_TUNER} itself, with 95% intervals: above
1 a part earns its keep. What can be left out by `without` is told in [tuners.md](tuners.md#how-each-choice-is-made).
"{NO_EVIDENCE}" has that penalty in the units that features come in, and no restarts; "{NO_UNITS}" and "{NO_STRIDE}" are
also in these units. "{ALWAYS_INTERCEPT}" is UCB-GLM without its choice between the fits with and without one.
Named arms play in worlds of their own, which no other table has; "{NO_LINK}" is `link="linear"`, also where all rewards
are 0 or 1.
"""


def write_page(file: Path, worlds: Sequence[World], facts: Mapping[str, str]) -> None:
    """Write the page. `facts` are lines for its last table, such as the time that the command took."""
    write(file, page(worlds, facts))


def page(worlds: Sequence[World], facts: Mapping[str, str]) -> str:
    """The page as text."""
    tuned, small = [world for world in worlds if world.group in BOARD], small_sections(worlds)
    named = [world for world in worlds if world.group == ARM_GROUP]
    parts = [*_tuners(tuned, small, named)] if tuned else [small, _ablations(named)]
    parts.append(_time(worlds, facts))
    return "\n".join(part for part in parts if part)


def _tuners(worlds: Sequence[World], small: str, named: Sequence[World]) -> list[str]:
    """The page's parts on the board's tuners, with the sections on small worlds between them."""
    experiments = [world.experiment for world in worlds]
    parts = [INTRO, _warning(experiments), _board(worlds), _bars(worlds), small, _details(worlds)]
    return [*parts, _ablations([*worlds, *named]), READING, settings(experiments)]


def _warning(experiments: Sequence[Experiment]) -> str:
    """What is not as on the whole board, if this is not all of it."""
    whole = [each for group in BOARD.values() for each in group]
    if experiments == whole:
        return ""
    played, repeats = {each.name for each in experiments}, {each.repeats for each in experiments}
    ends = " to ".join(map(str, sorted({min(repeats), max(repeats)})))
    said = f"**Not the whole board**: {len(experiments)} of {len(whole)} worlds, {ends} repeats"
    worlds = [f"`{each.name}`" for each in whole if each.name not in played]
    tuners = [label for label in labels() if not any(_played(label, each) for each in experiments)]
    left_out = [f"the {what} {', '.join(out)}" for what, out in (("worlds", worlds), ("tuners", tuners)) if out]
    return f"{said}{'; left out: ' if left_out else ''}{' and '.join(left_out)}.\n"


def _played(label: str, experiment: Experiment) -> bool:
    return label in experiment.tuners or (label == BEST_FIXED and bool(candidates(experiment.tuners)))


def columns(worlds: Sequence[World]) -> list[str]:
    """The tuners of the board, our tuner and the best fixed one first; the ablations have a table of their own.

    Another policy is in the list of its world alone.
    """
    found = dict.fromkeys(label for world in worlds for label in world.regrets)
    first = [label for label in (OUR_TUNER, BEST_FIXED, BOLDNESS_2, "Consensus") if label in found]
    return first + [label for label in found if label not in (*first, BASE_TUNER, OTHER_POLICY, *ABLATIONS)]


def _board(worlds: Sequence[World]) -> str:
    tuners = columns(worlds)
    rows = [[world.experiment.title, *(_cell(tuner, world.ratio(tuner)) for tuner in tuners)] for world in worlds]
    rows.append(["**Geometric mean**", *(_cell(tuner, overall(worlds, tuner)) for tuner in tuners)])
    said = f"**Bold** is better than {BASE_TUNER}, *slanted* is worse, the rest is not settled."
    ratios = f"## Ratio of mean regret to {BASE_TUNER}'s\n\n{table(['world', *tuners], rows)}\n{said}\n"
    return f"{ratios}\n{_equals(worlds)}"


def _equals(worlds: Sequence[World]) -> str:
    """How we compare with what is like us: fixed values in the same units, and the paper's tuner with an intercept."""
    bases = (BEST_FIXED, FORESEEN_FIXED, BOLDNESS_2, "Consensus", RIVAL_TUNER, ALL_WITH_INTERCEPT)
    rows = [[w.experiment.title, *(_share(w.ratio(OUR_TUNER, base)) for base in bases)] for w in worlds]
    rows.append(["**Geometric mean**", *(_share(overall(worlds, OUR_TUNER, base)) for base in bases)])
    head = ["world", *(f"to {base}" for base in bases)]
    return f"## {OUR_TUNER}'s mean regret as a multiple of others'\n\n{table(head, rows)}"


def _cell(tuner: str, ratio: Ratio | None) -> str:
    return marked(ratio) + (f" ({span(ratio)})" if ratio and tuner == OUR_TUNER else "")


def span(ratio: Ratio) -> str:
    return f"{ratio_number(ratio.low)} to {ratio_number(ratio.high)}"


def _bars(worlds: Sequence[World]) -> str:
    rows = []
    for found in findings(worlds):
        where, worst = (found.worst[0], ratio_number(found.worst[1])) if found.worst else ("–", "–")
        rows.append([found.bar.text, where, f"{found.bar.most:g}", worst, found.verdict])
    head = ["bar", "worst in", "at most", "measured", "verdict"]
    return f"## The bars for {OUR_TUNER}\n\n{table(head, rows, texts=2)}\n{_trade_off(worlds)}"


def _trade_off(worlds: Sequence[World]) -> str:
    rows = [
        [way.label, way.where, *map(ratio_number, way[2:0:-1]), ratio_number(way.mostly)] for way in trade_off(worlds)
    ]
    if not rows:
        return ""
    head = ["what is played", "worst in", "there", "geometric mean", "in nine of ten worlds at most"]
    return f"{TRADE_OFF_READING}\n{table(head, rows, texts=2)}"


def _details(worlds: Sequence[World]) -> str:
    return "## World by world\n\n" + "\n".join(map(_detail, worlds))


def _detail(world: World) -> str:
    e = world.experiment
    head = ["tuner", "mean", "median", "max", "std. error"]
    for base in (BASE_TUNER, RIVAL_TUNER):
        head += [f"to {base}'s", "95% interval", "verdict"]
    rows = [_line(world, each) for each in world_rows(world) if each.tuner not in ABLATIONS]
    size = f"{e.horizon:,} rounds, {e.repeats} repeat{'s' if e.repeats > 1 else ''}"
    title = f"{world.group}: {e.title} (<code>{e.name}</code>), {size}"
    return f"<details>\n<summary>{title}</summary>\n\n{table(head, rows)}\n</details>\n"


def _line(world: World, line: TunerRow) -> list[str]:
    name = f"{line.tuner} ({world.best})" if line.tuner == BEST_FIXED else line.tuner
    numbers = [f"{value:,.1f}" for value in (line.mean, line.median, line.largest, line.error)]
    return [name, *numbers, *_compared(line.ratio), *_compared(line.to_rival)]


def _compared(ratio: Ratio | None) -> list[str]:
    return [ratio_number(ratio.value), span(ratio), ratio.verdict] if ratio else ["–"] * 3


def _ablations(worlds: Sequence[World]) -> str:
    """One table for all worlds with the same parts."""
    alike: dict[tuple[str, ...], list[World]] = {}
    for world in worlds:
        alike.setdefault(tuple(label for label in ABLATIONS if label in world.regrets), []).append(world)
    tables = [_ablation_table(parts, own) for parts, own in alike.items() if parts]
    return f"## Appendix: ablations\n\n{ABLATION_READING}\n{chr(10).join(tables)}" if tables else ""


def _ablation_table(parts: Sequence[str], worlds: Sequence[World]) -> str:
    rows = [[w.experiment.title, *(_share(w.ratio(label, OUR_TUNER)) for label in parts)] for w in worlds]
    rows.append(["**Geometric mean**", *(_share(overall(worlds, label, OUR_TUNER)) for label in parts)])
    policies = " and ".join(dict.fromkeys(world.experiment.policy["name"] for world in worlds))
    small = [played_text(world, OUR_TUNER) for world in worlds if world.group == ARM_GROUP]
    return "\n".join([f"### {policies}\n", table(["world", *parts], rows), *small, *[""] * bool(small)])


def _share(ratio: Ratio | None) -> str:
    return f"{ratio_number(ratio.value)} ({span(ratio)})" if ratio else "–"


def settings(experiments: Sequence[Experiment]) -> str:
    """What was run; it depends on the experiments only, not on their results."""
    worlds = [[f"`{e.name}`", spec_text(e.environment), spec_text(e.policy), *_size(e)] for e in experiments]
    head = ["world", "environment", "policy", f"for {OUR_TUNER}", "delay", "rounds", "repeats", "seeds"]
    tuners = table(["label", "tuner", "where"], tuner_rows(experiments), texts=3)
    return f"## Settings\n\n{table(head, worlds, texts=4)}\n{tuners}"


def _size(e: Experiment) -> list[str]:
    ours = e.policies.get(OUR_TUNER, e.policy)
    other = [f"{name}={value}" for name, value in ours.items() if e.policy.get(name) != value]
    return [
        ", ".join(other) or "the same",
        str(e.delay),
        f"{e.horizon:,}",
        str(e.repeats),
        f"{e.seed} to {e.seed + e.repeats - 1}",
    ]


def tuner_rows(experiments: Sequence[Experiment]) -> list[list[str]]:
    """What each label stands for, and in which worlds; fixed candidates share a line."""
    where: dict[tuple[str, str], list[str]] = {}
    for e in experiments:
        fixed = candidates(e.tuners)
        said = {label: spec_text(spec) for label, spec in e.tuners.items() if label not in fixed}
        if fixed:
            said[BEST_FIXED] = f"the best of {len(fixed)}: {spec_text(_merged(list(fixed.values())))}"
        for pair in said.items():
            where.setdefault(pair, []).append(f"`{e.name}`")
    every, order = [f"`{e.name}`" for e in experiments], list(dict.fromkeys(label for label, _ in where))
    rows = [[label, text, _places(names, every)] for (label, text), names in where.items()]
    return sorted(rows, key=lambda row: order.index(row[0]))


def _places(names: Sequence[str], every: Sequence[str]) -> str:
    """Some of the worlds in words: by their names or, if that is shorter, by those of the others."""
    others = [name for name in every if name not in names]
    if len(others) >= len(names):
        return ", ".join(names)
    return f"everywhere but {', '.join(others)}" if others else "everywhere"


def _merged(fixed: Sequence[Spec]) -> Spec:
    """One spec whose space has the values of all of them."""
    axes = fixed[0]["space"]
    return {"name": "Fixed", "space": {name: sorted({spec["space"][name][0] for spec in fixed}) for name in axes}}


def _time(worlds: Sequence[World], facts: Mapping[str, str]) -> str:
    rows = [[f"`{world.experiment.name}`", time_text(world.seconds)] for world in worlds]
    lines = [[name, value] for name, value in (versions() | dict(facts)).items()]
    return f"## Versions and time\n\n{table(['what', 'value'], lines, texts=2)}\n{table(['world', 'CPU time'], rows)}"
