"""Tables in HTML, for notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """A table with a head, and paragraphs under it.

    >>> html_table(["a"], [["<1>"]], ["so"])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;1&gt;</td></tr></tbody></table><p>so</p>'
    """
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    under = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{under}"
