"""Numbers and settings as text for the pages."""

import math
from dataclasses import dataclass

from syndicated._decided_by import By
from syndicated._formatting import number
from syndicated.service.bandits.history import mean_and_error
from syndicated.types import Params

STANDARD_ERRORS_95 = 1.96  # on each side of a mean, for a 95% band
DECIDED_BY: dict[By, str] = {
    "agent": "the model",
    "warmup": "warm-up: a random arm",
    "floor": "floor: a random arm",
    "holdout": "hold-out: the fallback",
    "fallback": "switched off: the fallback",
    "caller": "the caller",
}


@dataclass(frozen=True)
class Interval:
    """A mean and half the width of its 95% band; nan where there are too few numbers."""

    mean: float
    half: float

    @classmethod
    def of_sums(cls, count: float, total: float, squares: float) -> "Interval":
        mean, error = mean_and_error(count, total, squares)
        return cls(mean, STANDARD_ERRORS_95 * error)

    @property
    def magnitude(self) -> "Interval":
        """The same without the sign of its mean."""
        return Interval(abs(self.mean), self.half)


def share(part: float, whole: float) -> float:
    """A part of a whole; nan if the whole is 0."""
    return part / whole if whole else math.nan


def params_text(params: Params) -> str:
    """Hyper-parameters as text.

    >>> params_text({"alpha": 0.5, "lam": 1.0})
    'alpha = 0.5, lam = 1'
    """
    return ", ".join(f"{name} = {value:.5g}" for name, value in params.items()) or "none"


def percent(value: float) -> str:
    """
    >>> percent(0.5), percent(0.123), percent(0.0004), percent(1.0)
    ('50%', '12.3%', '0.04%', '100%')
    """
    if not math.isfinite(value):
        return "–"
    return f"{100 * value:.3g}%" if 0.01 <= value <= 0.995 or value in (0, 1) else f"{100 * value:.4g}%"


def plus_minus(interval: Interval) -> str:
    """A mean and its band, with as many digits as the band allows.

    >>> plus_minus(Interval(0.51234, 0.0231)), plus_minus(Interval(12345.6, 210.0))
    ('0.512 ± 0.023', '12,346 ± 210')
    """
    if not math.isfinite(interval.half):
        return number(interval.mean)
    if interval.half == 0:
        return f"{number(interval.mean)} ± 0"
    digits = max(0, 1 - math.floor(math.log10(interval.half)))
    return f"{interval.mean:,.{digits}f} ± {interval.half:,.{digits}f}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.0123), duration(59), duration(90), duration(7200), duration(200000)
    ('12.3 ms', '59 s', '1.5 min', '2 h', '2.31 days')
    """
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{1000 * seconds:.3g} ms"
