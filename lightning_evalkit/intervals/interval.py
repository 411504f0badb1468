"""A number with the interval in which the truth lies with a stated confidence, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.numbers import as_number


@dataclass(frozen=True)
class Interval:
    """A value, the ends of its interval, the confidence ``level``, the ``method`` and the number of samples ``n``.

    ``n`` counts the samples that the statistic looks at: for recall, the positives. If no honest interval exists, the
    ends are NaN, ``method`` is "none" and ``reason`` says why.

    >>> print(Interval(0.8, 0.7112, 0.8666, 0.95, "wilson", 100))
    0.8000 [0.7112, 0.8666]
    """

    value: float
    low: float
    high: float
    level: float
    method: str
    n: int
    reason: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an interval."""
        return self.method != "none"

    @property
    def width(self) -> float:
        """high - low."""
        return self.high - self.low

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        ends = f"[{self.low:.4f}, {self.high:.4f}]" if self.known else f"(no interval: {self.reason})"
        return f"{self.value:.4f} {ends}"


def around(value: float, ends: tuple[float, float], level: float, method: str, n: int) -> Interval:
    """The interval, extended to the value if rounding or smoothing left the value outside."""
    low, high = ends
    return Interval(value, min(low, value), max(high, value), level, method, n)


def no_interval(value: float, level: float, reason: str, n: int = 0) -> Interval:
    """A value without an interval."""
    return Interval(value, nan, nan, level, "none", n, reason)


def undefined(value: float, level: float, n: int = 0) -> Interval:
    """A value that is 0/0, without an interval."""
    return no_interval(value, level, "the value is 0/0: there are no samples to estimate it from", n)


def checked_level(level: float) -> float:
    """Return the confidence level, if it lies between 0 and 1."""
    number = as_number(level)
    if number is None or isnan(number) or not 0 < number < (1 + number) / 2 < 1:
        raise DeclarationError(f"expected level to be a number between 0 and 1, such as 0.95, got {level!r}.")
    return float(number)


def checked_method(method: str, known: tuple[str, ...], what: str, why_not: str = "") -> str:
    """Return the method, the default for "auto"; refuse one that does not hold for ``what``, and say why."""
    if method == "auto":
        return known[0]
    if method not in METHODS:
        raise DeclarationError(f"expected method to be one of {', '.join(METHODS)}, got {method!r}.")
    if method not in known:
        raise DeclarationError(
            f"method={method!r} does not hold for {what}, {why_not or WHY_NOT[method]}: use method='auto' or one of "
            f"{', '.join(known)}."
        )
    return method


NO_SHARE = "which is not a share of samples"
NO_TABLE = "which is not computed from one table of TP, FP, FN and TN"
NO_AREA = "which is not the area under a ROC curve"
WHY_NOT = {
    "wilson": NO_SHARE,
    "clopper-pearson": NO_SHARE,
    "jeffreys": NO_SHARE,
    "anytime": NO_SHARE,
    "dirichlet": NO_TABLE,
    "bootstrap": NO_TABLE,
    "bca": NO_TABLE,
    "smoothed": "which is not an average over classes",
    "delong": NO_AREA,
    "hanley-mcneil": NO_AREA,
    "buckets": "whose samples are not counted in buckets",
}
"""The methods, each with the reason why it does not hold for other statistics."""
METHODS = ("auto", *WHY_NOT)
