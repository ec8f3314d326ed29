"""Small charts as SVG text: lines with a band and bars. Colours and dashes are classes of the style sheet.

What chart.js shows under the cursor is in the chart too: the places on its axis, and the text of every line at each.
"""

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape

from syndicated._formatting import number
from syndicated._series import evenly_spaced
from syndicated.service.dashboard.axis import Mark, Scale, Span, ticks
from syndicated.service.dashboard.curves import EpochCurve, Progress
from syndicated.service.dashboard.decision_view import ScoredArm
from syndicated.service.dashboard.formatting import Interval, percent, plus_minus
from syndicated.types import Array

WIDTH, HEIGHT = 440, 236
LEFT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 46, 20, 42
RIGHT_MARGIN = 22  # where lines have no labels
LABEL_MARGIN = 84  # where they have
TICK_WIDTH = 7.5  # of a character, at most
COLOURS = 8
MAX_LABELS = 12  # lines with a colour and a label; others are grey
MAX_POINTS = 120  # of a line
LABEL_GAP = 14.0  # between the lines of two labels


def probabilities(name: str, labels: Sequence[str], span: Span, x: Array, p: Array) -> Markup:
    """A line for each column of p, labelled with its candidate."""
    best = sorted(np.argsort(-p[-1], kind="stable")[:MAX_LABELS].tolist())
    kept = evenly_spaced(0, len(x) - 1, most=MAX_POINTS)
    frame = _Frame(span, x[kept], 0.0, _ceiling(p), WIDTH - LABEL_MARGIN, share=True)
    for column in sorted(range(p.shape[1]), key=lambda column: column in best):
        y = p[kept, column]
        if column in best:
            rank = best.index(column)
            frame.line(y, f"line s{rank % COLOURS} d{rank % 4}", labels[column], [percent(v) for v in y.tolist()])
        else:
            frame.line(y, "line rest")
    ends = [frame.y(float(p[-1, column])) for column in best]
    right = WIDTH - LABEL_MARGIN
    frame.text(right + 10, TOP_MARGIN - 8, name, "name")
    for place, (column, end, beside) in enumerate(
        zip(best, ends, spread(ends, TOP_MARGIN + 6, HEIGHT - BOTTOM_MARGIN), strict=True)
    ):
        frame.add(f'<path class="leader" d="M{right + 1} {end:.1f}L{right + 8} {beside:.1f}"/>')
        frame.add(f'<path class="line s{place % COLOURS} d{place % 4}" d="M{right + 10} {beside:.1f}h18"/>')
        frame.text(right + 32, beside + 4, labels[column], "label")
    ranked = ", ".join(f"{labels[k]} {percent(float(p[-1, k]))}" for k in np.argsort(-p[-1], kind="stable")[:3])
    return frame.drawn(f"Probability of every candidate of {name} over {span.by}; the likeliest now: {ranked}")


def rewards(span: Span, made: Progress) -> Markup:
    """The mean rewards of stretches of decisions, each within its 95% band."""
    frame = _band_frame(span, [made])
    frame.band(made, "line s0")
    return frame.drawn(f"Mean reward over {span.by}, with its 95% band")


def epochs(span: Span, curves: Sequence[EpochCurve]) -> Markup:
    """The mean rewards of several epochs after each other: the current one in colour, earlier ones in grey."""
    frame = _band_frame(span, [curve.progress for curve in curves])
    for curve in curves:
        frame.band(curve.progress, "line s0" if curve is curves[-1] else "line old", f"epoch {curve.epoch:,}")
    return frame.drawn(f"Mean reward of {len(curves)} epochs over {span.by}")


def shares(title: str, span: Span, x: Array, y: Array) -> Markup:
    """A line of shares."""
    frame = _Frame(span, x, 0.0, _ceiling(y), WIDTH - RIGHT_MARGIN, share=True)
    frame.line(y, "line s0", "", [percent(value) for value in y.tolist()])
    return frame.drawn(title)


def share_bar(share: float) -> Markup:
    """A share of the longest as a small bar."""
    width = max(100 * share, 0.5)
    parts = f'<rect class="rail" width="100" height="8"/><rect class="base" width="{width:.1f}" height="8"/>'
    return Markup(f'<svg class="bar" viewBox="0 0 100 8" aria-hidden="true">{parts}</svg>')


def bars(rows: Sequence[ScoredArm]) -> Markup:
    """Two bars for each arm: its score without exploration, and the bonus from there to its score."""
    ends = [0.0] + [end for row in rows for end in (row.plain, row.score)]
    x = Scale(min(ends), max(ends), 8.0, WIDTH - 8.0)
    parts = [f'<path class="axis" d="M{x(0):.1f} 4V{len(rows) * 44 + 4}"/>']
    for place, row in enumerate(rows):
        top = place * 44 + 8
        short = row.arm if len(row.arm) <= 36 else row.arm[:35] + "…"
        mark = " (played)" if row.chosen else ""
        parts.append(f'<text class="label" x="12" y="{top + 11}">{escape(short)}{mark}</text>')
        parts.append(f'<text class="label end" x="{WIDTH - 8}" y="{top + 11}">{number(row.score)}</text>')
        for look, start, stop, height in (("base", 0.0, row.plain, 14), ("bonus", row.plain, row.score, 8)):
            left, right = sorted((x(start), x(stop)))
            y, width = top + 16 + (14 - height) / 2, max(right - left, 0.5)
            parts.append(f'<rect class="{look}" x="{left:.1f}" y="{y:.0f}" width="{width:.1f}" height="{height}"/>')
    title = "Scores of the best arms: " + ", ".join(f"{row.arm} {number(row.score)}" for row in rows)
    return _svg(parts, len(rows) * 44 + 10, title)


def spread(places: Sequence[float], low: float, high: float) -> list[float]:
    """Positions moved apart, in the same order, so that labels do not cover each other."""
    order = sorted(range(len(places)), key=lambda k: places[k])
    gap = min(LABEL_GAP, (high - low) / max(1, len(places) - 1))
    found = list(places)
    for rank, k in enumerate(order):
        at_least = low if rank == 0 else found[order[rank - 1]] + gap
        found[k] = max(places[k], at_least)
    for rank in range(len(order) - 1, -1, -1):
        at_most = high if rank == len(order) - 1 else found[order[rank + 1]] - gap
        found[order[rank]] = min(found[order[rank]], at_most)
    return found


def _band_frame(span: Span, parts: Sequence[Progress]) -> "_Frame":
    known = [each for part in parts for each in part.rewards if math.isfinite(each.mean)]
    least = min((low for low, _ in map(_ends, known)), default=0.0)
    most = max((high for _, high in map(_ends, known)), default=1.0)
    pad = (most - least) * 0.06 or abs(most) * 0.1 or 1.0
    x = np.concatenate([part.x for part in parts])
    return _Frame(span, x, least - pad, most + pad, WIDTH - RIGHT_MARGIN)


def _ends(interval: Interval) -> tuple[float, float]:
    half = interval.half if math.isfinite(interval.half) else 0.0
    return interval.mean - half, interval.mean + half


class _Frame:
    """A chart over decisions or time: its axes and what is drawn between them."""

    def __init__(self, span: Span, x: Array, low: float, high: float, right: float, share: bool = False) -> None:
        self.parts: list[str] = []
        self.span, self.places = span, x
        self.x = Scale(span.low, span.high, LEFT_MARGIN, right)
        self.y = Scale(low, high, HEIGHT - BOTTOM_MARGIN, TOP_MARGIN)
        for value in ticks(low, high):
            y = self.y(value)
            self.add(f'<path class="grid" d="M{LEFT_MARGIN} {y:.1f}H{right}"/>')
            self.text(LEFT_MARGIN - 6, y + 4, percent(value) if share else f"{value:g}", "tick end", LEFT_MARGIN - 8)
        for value, text in span.ticks():
            self.text(self.x(value), HEIGHT - BOTTOM_MARGIN + 16, text, "tick middle")
        self.add(f'<path class="axis" d="M{LEFT_MARGIN} {HEIGHT - BOTTOM_MARGIN}H{right}"/>')
        self.text((LEFT_MARGIN + right) / 2, HEIGHT - 6, "time, UTC" if span.by == "time" else span.by, "tick middle")
        for mark in span.marks:
            self._mark(mark)

    def _mark(self, mark: Mark) -> None:
        top = HEIGHT - BOTTOM_MARGIN - 9 if mark.kind == "kept" else TOP_MARGIN
        line = f'<path d="M{self.x(mark.x):.1f} {top}V{HEIGHT - BOTTOM_MARGIN}"/>'
        self.add(f'<g class="mark {mark.kind}"><title>{escape(mark.text)}</title>{line}</g>')

    def add(self, part: str) -> None:
        self.parts.append(part)

    def text(self, x: float, y: float, text: str, look: str, room: float = math.inf) -> None:
        """Add a text; one that is wider than its room is narrowed."""
        fit = "" if len(text) * TICK_WIDTH <= room else f' textLength="{room:.0f}" lengthAdjust="spacingAndGlyphs"'
        self.add(f'<text class="{look}" x="{x:.1f}" y="{y:.1f}"{fit}>{escape(text)}</text>')

    def band(self, made: Progress, look: str, label: str = "") -> None:
        """Mean rewards within their bands; stretches without a reward are left out."""
        known = [(x, each) for x, each in zip(made.x.tolist(), made.rewards, strict=True) if math.isfinite(each.mean)]
        x, own = np.array([x for x, _ in known]), [each for _, each in known]
        ends = np.array([_ends(each) for each in own]).reshape(-1, 2)
        self._area(x, ends[:, 0], ends[:, 1], look)
        self.line(np.array([each.mean for each in own]), look, label, [plus_minus(each) for each in own], x)

    def line(self, y: Array, look: str, label: str = "", values: Sequence[str] = (), x: Array | None = None) -> None:
        """A line through the frame's places, or its own; with the text of each value it is found under the cursor."""
        places = self._places(self.places if x is None else x, y)
        known = f' data-label="{escape(label)}" data-values="{escape("|".join(values))}"' if values else ""
        if x is not None and len(x):
            known += f' data-places="{escape("|".join(map(self.span.text, x.tolist())))}"'
        if len(places) == 1:
            left, top = places[0].split(",")
            self.add(f'<circle class="{look}" cx="{left}" cy="{top}" r="2"{known}/>')
        elif places:
            self.add(f'<polyline class="{look}" points="{" ".join(places)}"{known}/>')

    def _area(self, x: Array, low: Array, high: Array, look: str) -> None:
        places = self._places(x, low) + self._places(x, high)[::-1]
        old = " old" if "old" in look else ""
        if len(x) > 1:
            self.add(f'<polygon class="band{old}" points="{" ".join(places)}"/>')
        elif len(x):
            ends = "L".join(place.replace(",", " ") for place in places)
            self.add(f'<path class="band stroke{old}" d="M{ends}"/>')

    def _places(self, x: Array, y: Array) -> list[str]:
        return [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]

    def drawn(self, title: str) -> Markup:
        places = "|".join(map(self.span.text, self.places.tolist()))
        return _svg(self.parts, HEIGHT, title, f' data-places="{escape(places)}"')


def _ceiling(shares: Array) -> float:
    """The top of an axis of shares."""
    most = float(shares.max(initial=0.0))
    return next(top for top in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if most < 0.98 * top or top == 1.0)


def _svg(parts: Sequence[str], height: int, title: str, more: str = "") -> Markup:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}"{more}>'
    return Markup("".join([head, *parts, "</svg>"]))
