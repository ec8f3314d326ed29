"""How figures begin: one style, and a figure that notebooks show."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from syndicated._extras import extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "syndicated",
}
# Candidates have an order, so their colours have one: from dark to light, told apart by lightness alone.
SHADE_COLOURS = ["#30123b", "#3b528b", "#21918c", "#5ec962", "#fde725"]


@contextmanager
def styled(style: dict[Any, Any] = FIGURE_STYLE) -> Iterator[None]:
    """Draw in this style. Every figure begins here, so here Matplotlib is loaded."""
    with extra("experiments", "a figure"):
        import matplotlib as mpl
    with mpl.rc_context(style):
        yield


def empty_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """A figure of this size in inches, without a window; notebooks show it by themselves."""
    from matplotlib.figure import Figure

    class ShownFigure(Figure):
        """Notebooks know how to show a figure only where pyplot was imported."""

        def _repr_png_(self) -> bytes:
            content = io.BytesIO()
            self.savefig(content, format="png")
            return content.getvalue()

    return ShownFigure(figsize=(width, height), layout=layout)


def shades(n: int) -> list[str]:
    """n colours from dark to light."""
    from matplotlib import colors

    map_ = colors.LinearSegmentedColormap.from_list("shades", SHADE_COLOURS)
    return [colors.to_hex(map_(place)) for place in np.linspace(0, 1, n)]
