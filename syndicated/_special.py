"""SciPy's special functions, loaded when the first of them is called: SciPy takes as long to import as this package.

Use them through the module, `_special.expit(z)`. After the first call that is a plain attribute, which costs nothing.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    from scipy import special

    function = globals()[name] = getattr(special, name)
    return function
