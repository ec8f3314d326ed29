"""HTML as tests read it."""

from collections import Counter
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """The tags, which must match; every attribute; and the text outside of styles."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.parts: list[str] = []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.parts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def plain(self) -> str:
        """The text with a space between any two parts of it."""
        return " ".join(" ".join(self.parts).split())

    def values(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [value for _, own, value in self.attributes if own == name]
