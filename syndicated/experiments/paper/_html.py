"""Text that is safe to put into a page: whatever is not markup already is escaped."""

import html
from collections.abc import Sequence

from syndicated.experiments.paper.claims import MARKS, Verdict


class Markup(str):
    """Text that is HTML already."""


def el(tag: str, *inside: str, **attributes: str) -> Markup:
    """An element; what is inside is escaped unless it is Markup. Names as `class_` and `aria_label` stand for class
    and aria-label.

    >>> el("td", "a < b", class_="number")
    '<td class="number">a &lt; b</td>'
    """
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(value)}"' for name, value in attributes.items()
    )
    return Markup(f"<{tag}{named}>{join(*inside)}</{tag}>")


def join(*parts: str) -> Markup:
    """Parts one after the other, escaped unless they are Markup."""
    return Markup("".join(part if isinstance(part, Markup) else html.escape(part) for part in parts))


def table(
    caption: str, headings: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1, kind: str = ""
) -> Markup:
    """A table whose first `texts` columns are text and the others numbers; a cell that is Markup <td> stays one."""
    kinds = ["text" if place < texts else "number" for place in range(len(headings))]
    head = [el("th", name, scope="col", class_=kind) for name, kind in zip(headings, kinds, strict=True)]
    body = [el("tr", *(_cell(*each) for each in zip(range(len(row)), row, kinds, strict=True))) for row in rows]
    return el(
        "div",
        el("table", el("caption", caption), el("thead", el("tr", *head)), el("tbody", *body)),
        class_=f"scroll {kind}".strip(),
        tabindex="0",
    )


def _cell(place: int, value: str, kind: str) -> Markup:
    if value.startswith("<td") and isinstance(value, Markup):
        return value
    return el("th", value, scope="row") if place == 0 else el("td", value, class_=kind)


def link(place: str, text: str) -> Markup:
    """A link to a place of the same page."""
    return el("a", text, href=f"#{place}")


def picture(drawn: str, caption: str) -> Markup:
    """An inlined figure with its caption."""
    return el("figure", el("div", Markup(drawn), class_="picture"), el("figcaption", caption))


def badge(verdict: Verdict, text: str = "") -> Markup:
    return el("span", f"{MARKS[verdict]} {text or verdict}", class_=f"badge {class_of(verdict)}")


def class_of(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")
