"""What only some parts of the package need is installed by extras, and imported where it is used."""

from collections.abc import Iterator
from contextlib import contextmanager

from syndicated.errors import MissingExtraError


@contextmanager
def extra(name: str, purpose: str) -> Iterator[None]:
    """Around imports of what an extra installs: without it the error is one line that names it."""
    try:
        yield
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module in ("", "syndicated"):
            raise
        raise MissingExtraError(f"{purpose} needs {module}: pip install 'syndicated[{name}]'") from None
