"""The bake-off as one page of markdown."""

from collections.abc import Mapping
from pathlib import Path

from syndicated._files import write
from syndicated._formatting import number
from syndicated.datasets.classification import CLASSIFICATION_SETS
from syndicated.experiments._formatting import table, versions
from syndicated.experiments.bakeoff._bars import bars
from syndicated.experiments.bakeoff._board import LEVEL, Board
from syndicated.experiments.bakeoff._peers import REQUIREMENTS
from syndicated.experiments.bakeoff._players import DEFAULT, PLAYERS, REFERENCES, SUPERVISED
from syndicated.experiments.bakeoff._tasks import MAX_ROWS, REPEATS, BakeOff
from syndicated.experiments.bakeoff.peer_worker import PLAYERS as PEER_PLAYERS

INTRO = """\
# Bake-off

Real classified data played as bandits: a row is a context, its classes are the arms, and the class that a row has pays
1, every other 0. One pass over the rows; the reward counts from the first round on, and nobody is told anything in
advance. `make bakeoff` runs all of it and writes this page; nothing here is written by hand.
"""


def _limits() -> str:
    """Who plays on how many columns, in words."""
    limits = sorted({player.max_columns for player in PLAYERS.values() if player.max_columns}, reverse=True)
    named = {n: [label.partition(",")[0] for label, each in PLAYERS.items() if each.max_columns == n] for n in limits}
    return "; ".join(f"{n} ({', '.join(labels)})" for n, labels in named.items())


READING = f"""\
## How to read it

- **Rows.** Every set is a file inside a package on the Python package index, see [data.md](data.md#classified-data).
  Categories become columns of 0 and 1. Other columns are brought to mean 0 and deviation 1 over the set, for all
  players alike. The rows come in a random order, another for each repeat, the same for all players.
- **Reward** is the mean of all rounds of a pass, then of the repeats.
- **Rank**: 1 for the player that earned most on a set, and so on; those with the same reward share the mean of their
  places. The players that did not play every set are ranked among those that did, over their own sets. The
  supervised fit has no rank.
- **Wins and losses** are counted over the sets with the test of Bietti, Agarwal and Langford ("A Contextual Bandit
  Bake-off", Journal of Machine Learning Research 22, 2021): with p and q the mean rewards of two players and n the
  rounds of one pass, a win is 1 − Φ((p − q) / √(p(1 − p)/n + q(1 − q)/n)) < {LEVEL:g}. Repeats make p and q steadier,
  but n stays that of one pass: another order of the same rows is no new data.
- **Regret** is the mean reward of `{SUPERVISED}` minus the player's. It is a logistic regression that is told the class
  of every row after its decision, fitted again whenever there are a tenth more rows.
- **Microseconds** are those of a round, decide and learn together, in Python, for each library through its own
  interface: processor time, one thread, the median over the sets.
- **Held out** are the sets that no constant of this package was chosen on, but for three of the models of arms: that
  columns of 0 and 1 are not centred, how far off a precision may be, and how many older rows a reward visits. They were
  judged on all sets, in other orders of the rows than those here. The other sets were used for all constants.
- **Plain references** are {", ".join(REFERENCES)}.
- A row for each arm with the arm's own part of it filled has arms × (1 + columns) numbers. Players on such dense rows
  play the sets on which that is at most {_limits()}.
  A pass over a wider one would take them minutes.
- Vowpal Wabbit is told the range of the costs, and has the cost 1 − reward, which served it better than −reward on
  the sets that are not held out.
"""


def write_page(file: Path, board: Board, bakeoff: BakeOff, facts: Mapping[str, str]) -> None:
    """Write the page. `facts` are lines for its last table, such as the time that the command took."""
    write(file, page(board, bakeoff, facts))


def page(board: Board, bakeoff: BakeOff, facts: Mapping[str, str]) -> str:
    """The page as text."""
    parts = [INTRO, _warning(board, bakeoff), _size(board, bakeoff), _missing(bakeoff), _players(board), _bars(board)]
    parts += [_compared(board), _sets(board), READING, _who(board), _facts(bakeoff, facts)]
    return "\n".join(part for part in parts if part)


def _size(board: Board, bakeoff: BakeOff) -> str:
    held = sum(one.held_out for one in board.sets)
    return (
        f"{len(board.sets)} sets, {held} of them held out; at most {bakeoff.max_rows:,} rows of each; "
        f"{bakeoff.repeats} repeat{'s' if bakeoff.repeats > 1 else ''}.\n"
    )


def _warning(board: Board, bakeoff: BakeOff) -> str:
    """What is not as in the whole bake-off, if this is not all of it."""
    sets = [one.name for one in CLASSIFICATION_SETS if one not in board.sets]
    players = [label for label in (*PLAYERS, *PEER_PLAYERS) if label not in board.players]
    other = [
        *[f"at most {bakeoff.max_rows:,} rows of a set in place of {MAX_ROWS:,}"] * (bakeoff.max_rows != MAX_ROWS),
        *[f"repeats: {bakeoff.repeats} in place of {REPEATS}"] * (bakeoff.repeats != REPEATS),
        *(f"without the {what} {', '.join(out)}" for what, out in (("sets", sets), ("players", players)) if out),
    ]
    return f"**Not the whole bake-off**: {'; '.join(other)}.\n" if other else ""


def _missing(bakeoff: BakeOff) -> str:
    lines = [f"- **{name} is not here**: {reason}" for name, reason in bakeoff.peers.missing.items()]
    return "\n".join(lines) + "\n" if lines else ""


def _players(board: Board) -> str:
    held = board.only([one for one in board.sets if one.held_out])
    order = sorted(board.players, key=lambda label: (label == SUPERVISED, board.mean_rank(label)))
    rows = [_player(board, held, label) for label in order]
    head = ["player", "mean rank", "held out", "reward", "regret", "wins", "losses", "µs a round", "sets"]
    said = f"Wins and losses are {DEFAULT}'s against that player." if DEFAULT in board.players else ""
    return f"## All players\n\n{table(head, rows)}\n{said}\n"


def _player(board: Board, held: Board, label: str) -> list[str]:
    ranked = [each if label != SUPERVISED and each.sets_of(label) else None for each in (board, held)]
    ranks = [f"{each.mean_rank(label):.2f}" if each else "–" for each in ranked]
    compared = label not in (DEFAULT, SUPERVISED) and DEFAULT in board.players
    wins = [str(count) for count in board.wins_and_losses(DEFAULT, label)] if compared else ["–", "–"]
    numbers = [f"{board.reward(label):.3f}", number(round(board.regret(label), 3))]
    return [label, *ranks, *numbers, *wins, f"{board.microseconds(label):,.0f}", str(len(board.sets_of(label)))]


def _bars(board: Board) -> str:
    rows = [[bar.text, bar.measured, "holds" if bar.holds else "does not hold"] for bar in bars(board)]
    return f"## The bars for {DEFAULT}\n\n{table(['bar', 'measured', 'verdict'], rows, texts=3)}" if rows else ""


def _compared(board: Board) -> str:
    """Every player against every other: significant wins minus losses."""
    labels = sorted((each for each in board.players if each != SUPERVISED), key=board.mean_rank)
    if len(labels) < 2:
        return ""
    rows = []
    for mine in labels:
        pairs = [board.wins_and_losses(mine, other) for other in labels]
        rows.append([mine, *("" if o == mine else f"{w}–{x}" for o, (w, x) in zip(labels, pairs, strict=True))])
    head = ["wins–losses of", *(str(place + 1) for place in range(len(labels)))]
    numbered = [[f"{place + 1}. {row[0]}", *row[1:]] for place, row in enumerate(rows)]
    return f"<details>\n<summary>Everybody against everybody</summary>\n\n{table(head, numbered)}\n</details>\n"


def _sets(board: Board) -> str:
    shown = [label for label in (SUPERVISED, DEFAULT) if label in board.players]
    head = ["set", "held out", "rounds", "arms", *shown, "best other", "who"]
    rows = []
    for one in board.sets:
        own = board.scores[one.name]
        others = {label: score.reward for label, score in own.items() if label not in (SUPERVISED, DEFAULT)}
        best = max(others, key=lambda label: others[label]) if others else None
        rewards = [f"{own[label].reward:.3f}" if label in own else "–" for label in shown]
        any_score = next(iter(own.values()))
        size = [f"{any_score.rounds:,}", str(any_score.arms)]
        last = [f"{others[best]:.3f}", best] if best else ["–", "–"]
        rows.append([one.name, "yes" if one.held_out else "", *size, *rewards, *last])
    every = _every_score(board)
    return f"## Set by set\n\nThe mean reward of a round.\n\n{table(head, rows)}\n{every}"


def _every_score(board: Board) -> str:
    lists = []
    for one in board.sets:
        own = sorted(board.scores[one.name].items(), key=lambda pair: -pair[1].reward)
        rows = [
            [label, f"{score.reward:.4f}", number(score.error), f"{score.microseconds:,.0f}"] for label, score in own
        ]
        said = table(["player", "reward", "std. error", "µs a round"], rows)
        lists.append(f"<details>\n<summary>{one.name}</summary>\n\n{said}\n</details>\n")
    return "\n".join(lists)


def _who(board: Board) -> str:
    texts = {label: player.text for label, player in PLAYERS.items()}
    texts |= {label: f"`{REQUIREMENTS[name]}`: {what}" for label, (name, _, what) in PEER_PLAYERS.items()}
    rows = [[label, texts[label]] for label in board.players]
    return f"## The players\n\n{table(['label', 'what'], rows, texts=2)}"


def _facts(bakeoff: BakeOff, facts: Mapping[str, str]) -> str:
    peers = dict(text.rsplit(" ", 1) for text in sorted(set(bakeoff.peers.players.values())))
    lines = [[name, value] for name, value in (versions() | peers | dict(facts)).items()]
    return f"## Versions and time\n\n{table(['what', 'value'], lines, texts=2)}"
