"""Numbers as text. There are three rules, for three kinds of number: any number, a difference, and a ratio."""

import math


def number(value: float) -> str:
    """Any number: whole ones in full, others to four digits; a dash if it is not finite.

    >>> number(1234567), number(0.123456), number(12.0), number(float("nan"))
    ('1,234,567', '0.1235', '12', '–')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:.4g}"


def signed_number(value: float) -> str:
    """A difference: to one decimal and with its sign, except zero, which has none.

    >>> signed_number(1234.56), signed_number(-2), signed_number(-0.01)
    ('+1,234.6', '−2.0', '0.0')
    """
    text = f"{value:+,.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text.replace("-", "−")


def ratio_number(ratio: float) -> str:
    """A ratio: to two decimals, or to two digits if it is small.

    >>> ratio_number(0.0512), ratio_number(0.256), ratio_number(12.345)
    ('0.051', '0.26', '12.35')
    """
    return f"{ratio:.3f}" if ratio < 0.0995 else f"{ratio:,.2f}"
