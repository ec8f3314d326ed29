"""The documentation site: Sphinx on these very pages, which stay readable as files. `make docs` builds it.

A link out of this folder, to code or an example, leads to a copy of that file on the site. The files in `project/`
stand for pages of the folder above, and links to those and from them are turned to fit.
"""

import re
from pathlib import Path
from typing import Any

project = "syndicated"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["conftest.py"]
html_theme = "furo"
html_title = "syndicated"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sourcelink = False
html_copy_source = False
highlight_language = "text"
default_role = "code"  # docstrings are written as Markdown is: `name` is code
myst_heading_anchors = 3
toc_object_entries = False  # hundreds of them would hide the headings
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}

ROOT = Path(__file__).parents[1]
ABOVE = ("README", "CHANGELOG", "CONTRIBUTING", "RELEASING", "SECURITY")
LINK_ABOVE = re.compile(rf"\]\((?:\.\./)+({'|'.join(ABOVE)})\.md")
ARRAY_LIKE = re.compile(r"\S*_Buffer \| .*?_NestedSequence\[complex \| bytes \| str\]")
RELATIVE_LINK = re.compile(r"\]\((?!\w+:|#)")


def from_above(text: str) -> str:
    """A page of the folder above, with its links as seen from `project/`."""
    return RELATIVE_LINK.sub("](../../", text).replace("](../../docs/", "](../")


def on_read(app: Any, page: str, source: list[str]) -> None:
    folder, _, name = page.rpartition("/")
    to_project = "" if folder else "project/"
    if folder == "project":
        above = ROOT / f"{name.upper()}.md"
        app.env.note_dependency(above)
        source[0] = from_above(above.read_text())
    source[0] = LINK_ABOVE.sub(lambda link: f"]({to_project}{link[1].lower()}.md", source[0])


def on_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Formulas are indented blocks in docstrings: they become literal blocks. |x| is an absolute value."""
    lines[:] = [re.sub(r"(?<![\w`])\|(?=\w[^|]*\|)", r"\\|", line) for line in lines]
    for number in range(len(lines) - 1, 1, -1):
        before = next((line for line in reversed(lines[:number]) if line.strip()), "")
        starts = re.match(r"\s+\S", lines[number]) and not lines[number - 1].strip()
        if starts and not before.startswith((" ", ">>>")):
            lines[number:number] = ["::", ""]


def on_signature(app: Any, what: str, name: str, obj: Any, options: Any, signature: str, returned: str) -> Any:
    """NumPy's type of all that can become an array is printed by its name, not by what it is made of."""
    return [text and ARRAY_LIKE.sub("ArrayLike", text) for text in (signature, returned)]


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", on_signature)
    app.connect("source-read", on_read)
    app.connect("autodoc-process-docstring", on_docstring)
