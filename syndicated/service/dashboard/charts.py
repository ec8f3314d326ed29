"""Small charts as SVG text: lines with a band and bars. Colours and dashes are classes of the style sheet."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape

from syndicated._formatting import number
from syndicated._series import evenly_spaced
from syndicated.service.dashboard.decision_view import ScoredArm
from syndicated.service.dashboard.formatting import percent
from syndicated.types import Array

WIDTH, HEIGHT = 440, 236
LEFT_MARGIN, TOP_MARGIN, BOTTOM_MARGIN = 46, 20, 42
RIGHT_MARGIN = 22  # where lines have no labels
LABEL_MARGIN = 84  # where they have
COLOURS = 8
MAX_LABELS = 12  # lines with a colour and a label; others are grey
MAX_POINTS = 120  # of a line
LABEL_GAP = 14.0  # between the lines of two labels


@dataclass(frozen=True)
class Scale:
    """A linear map from values to coordinates."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / ((self.high - self.low) or 1.0) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers for an axis.

    >>> ticks(0, 1), ticks(0, 3000, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 1000.0, 2000.0, 3000.0])
    """
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= span / most * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def probabilities(name: str, labels: Sequence[str], x: Array, p: Array) -> Markup:
    """A line for each column of p, labelled with its candidate."""
    best = sorted(np.argsort(-p[-1], kind="stable")[:MAX_LABELS].tolist())
    kept = evenly_spaced(0, len(x) - 1, most=MAX_POINTS)
    frame = _Frame(float(x[-1]), 0.0, _ceiling(p), WIDTH - LABEL_MARGIN, share=True)
    for column in sorted(range(p.shape[1]), key=lambda column: column in best):
        look = f"line s{best.index(column) % COLOURS} d{best.index(column) % 4}" if column in best else "line rest"
        frame.line(x[kept], p[kept, column], look)
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
    return frame.drawn(f"Probability of every candidate of {name} over decisions; the likeliest now: {ranked}")


def band(title: str, until: float, x: Array, y: Array, low: Array, high: Array) -> Markup:
    """A line within its band, up to now. Points where y is nan are left out."""
    there = np.isfinite(y)
    x, y, low, high = x[there], y[there], low[there], high[there]
    least, most = (float(low.min()), float(high.max())) if len(y) else (0.0, 1.0)
    pad = (most - least) * 0.06 or abs(most) * 0.1 or 1.0
    frame = _Frame(until, least - pad, most + pad, WIDTH - RIGHT_MARGIN)
    frame.area(x, low, high)
    frame.line(x, y, "line s0")
    return frame.drawn(title)


def shares(title: str, until: float, x: Array, y: Array) -> Markup:
    """A line of shares, up to now."""
    frame = _Frame(until, 0.0, _ceiling(y), WIDTH - RIGHT_MARGIN, share=True)
    frame.line(x, y, "line s0")
    return frame.drawn(title)


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


class _Frame:
    """A chart over decisions: its axes and what is drawn between them."""

    def __init__(self, until: float, low: float, high: float, right: float, share: bool = False) -> None:
        self.parts: list[str] = []
        self.x = Scale(0.0, max(until, 1.0), LEFT_MARGIN, right)
        self.y = Scale(low, high, HEIGHT - BOTTOM_MARGIN, TOP_MARGIN)
        for value in ticks(low, high):
            y = self.y(value)
            self.add(f'<path class="grid" d="M{LEFT_MARGIN} {y:.1f}H{right}"/>')
            self.text(LEFT_MARGIN - 6, y + 4, percent(value) if share else f"{value:g}", "tick end")
        for value in filter(float.is_integer, ticks(0.0, self.x.high, 4)):
            self.text(self.x(value), HEIGHT - BOTTOM_MARGIN + 16, number(value), "tick middle")
        self.add(f'<path class="axis" d="M{LEFT_MARGIN} {HEIGHT - BOTTOM_MARGIN}H{right}"/>')
        self.text((LEFT_MARGIN + right) / 2, HEIGHT - 6, "decisions", "tick middle")

    def add(self, part: str) -> None:
        self.parts.append(part)

    def text(self, x: float, y: float, text: str, look: str) -> None:
        self.add(f'<text class="{look}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>')

    def line(self, x: Array, y: Array, look: str) -> None:
        places = self._places(x, y)
        if len(places) == 1:
            left, top = places[0].split(",")
            self.add(f'<circle class="{look}" cx="{left}" cy="{top}" r="2"/>')
        elif places:
            self.add(f'<polyline class="{look}" points="{" ".join(places)}"/>')

    def area(self, x: Array, low: Array, high: Array) -> None:
        places = self._places(x, high) + self._places(x, low)[::-1]
        if len(x) > 1:
            self.add(f'<polygon class="band" points="{" ".join(places)}"/>')
        elif len(x):
            self.add(f'<path class="band stroke" d="M{places[0].replace(",", " ")}L{places[1].replace(",", " ")}"/>')

    def _places(self, x: Array, y: Array) -> list[str]:
        return [f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True)]

    def drawn(self, title: str) -> Markup:
        return _svg(self.parts, HEIGHT, title)


def _ceiling(shares: Array) -> float:
    """The top of an axis of shares."""
    most = float(shares.max(initial=0.0))
    return next(top for top in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if most < 0.98 * top or top == 1.0)


def _svg(parts: Sequence[str], height: int, title: str) -> Markup:
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
    return Markup("".join([head, *parts, "</svg>"]))
