"""A threshold that keeps its logit, and its cut for scores of every precision."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.numbers import as_number

PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types of scores that are compared; a cut is prepared for each."""
USUAL_DIGITS, MOST_DIGITS = 6, 17
"""Digits of a number in a name: as many as ``:g`` gives, and as many as distinguish any two doubles."""


Cuts = dict[tuple[str, torch.dtype], tuple[float, ...]]
"""The cut of each threshold for every kind and type of scores."""
Given = float | dict[str, float]
"""A threshold as it is declared: a number, a ``Threshold`` among them, or {"logit": number}."""


class Threshold(float):
    """A probability that keeps its logit: near 0 and 1, probabilities do not distinguish large logits.

    Scores of any precision are compared with exactly this number. ``best_threshold`` returns one, and every
    ``threshold`` argument takes one, or ``{"logit": 41.5}`` where only plain values can be written.

    >>> Threshold.from_logit(41.5)
    Threshold(1.0, logit=41.5)
    >>> Threshold(0.25).logit == -Threshold(0.75).logit
    True
    """

    logit: float

    def __new__(cls, probability: float, logit: float | None = None) -> Threshold:
        """Take a probability in [0, 1], or NaN for none; ``logit`` may specify it more exactly."""
        number = float(probability)
        if not (0 <= number <= 1 or math.isnan(number)):
            raise DeclarationError(f"expected a probability in [0, 1], got {probability!r}: Threshold.from_logit(x).")
        if logit is not None and abs(sigmoid(logit) - number) > 1e-9:
            raise DeclarationError(f"expected the logit of {probability!r}, got {logit!r}, that of {sigmoid(logit)!r}.")
        threshold = super().__new__(cls, number)
        threshold.logit = log_odds(number) if logit is None else float(logit)
        return threshold

    @classmethod
    def from_logit(cls, logit: float) -> Threshold:
        """The threshold at a logit."""
        return cls(sigmoid(logit), logit)

    @property
    def is_told(self) -> bool:
        """Whether its probability alone distinguishes it from other logits of single precision."""
        back = log_odds(float(self))
        return back == self.logit or not abs(back - self.logit) > abs(self.logit) * torch.finfo(torch.float32).eps / 4

    def shown(self, digits: int = USUAL_DIGITS) -> str:
        """The probability, or the logit where that says more."""
        return f"{float(self):.{digits}g}" if self.is_told else f"logit {self.logit:.{digits}g}"

    @property
    def plain(self) -> float | dict[str, float]:
        """Its form as plain values; ``parsed`` restores the threshold."""
        number = float(self)
        return number if math.isnan(number) or log_odds(number) == self.logit else {"logit": self.logit}

    def __eq__(self, other: object) -> bool:
        """Equal thresholds cut logits and probabilities alike; a plain number stands for its own logit."""
        if not isinstance(other, (int, float)):
            return NotImplemented
        return float(self) == float(other) and self.logit == logit_of(other)

    def __ne__(self, other: object) -> bool:
        """The opposite, which a number would answer by itself."""
        return NotImplemented if not isinstance(other, (int, float)) else not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        number = float(self)
        told = math.isnan(number) or log_odds(number) == self.logit
        return f"Threshold({number!r})" if told else f"Threshold({number!r}, logit={self.logit!r})"

    def __reduce__(self) -> Any:
        return Threshold, (float(self), None if math.isnan(self) else self.logit)


def sigmoid(logit: float) -> float:
    """The probability of a logit."""
    rare = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else rare) / (1.0 + rare)


def log_odds(probability: float) -> float:
    """The logit of a probability, so that no score needs a sigmoid: 0 and 1 become infinities.

    >>> log_odds(0.5)
    0.0
    """
    if probability in (0.0, 1.0):
        return math.inf if probability else -math.inf
    return math.log(probability) - math.log1p(-probability)


def logit_of(threshold: float) -> float:
    """The cut for logits: the logit that a threshold keeps, or that of a plain number."""
    return threshold.logit if isinstance(threshold, Threshold) else log_odds(float(threshold))


def thresholds_of(threshold: Any) -> tuple[float, ...]:
    """Return one threshold or several as a tuple."""
    given = parsed(threshold)
    return given if isinstance(given, tuple) else (given,)


def parsed(threshold: Any) -> Any:
    """Parse a threshold: a number, or a mapping that names the logit; a list of them becomes a tuple."""
    if isinstance(threshold, Mapping):
        if list(threshold) != ["logit"] or not isinstance(threshold["logit"], (int, float)):
            raise DeclarationError(f"expected threshold to be a number or {{'logit': number}}, got {threshold!r}.")
        return Threshold.from_logit(float(threshold["logit"]))
    number = as_number(threshold)
    if number is not None:
        return number
    if isinstance(threshold, Iterable) and not isinstance(threshold, (str, bytes)):
        return tuple(map(parsed, threshold))
    raise DeclarationError(
        "expected threshold to be a number in [0, 1] (on probabilities, also when inputs are logits) or a list of "
        f"such, got {threshold!r}."
    )


def plain_of(threshold: Any) -> Any:
    """The inverse of ``parsed``: numbers and mappings that any file can hold."""
    if isinstance(threshold, (list, tuple)):
        return type(threshold)(map(plain_of, threshold))
    return threshold.plain if isinstance(threshold, Threshold) else threshold


# ---- where scores are cut


def cuts_of(thresholds: Sequence[float]) -> Cuts:
    """The cuts for scores of every kind and type."""
    return _cuts_of(tuple((float(each), each.logit if isinstance(each, Threshold) else None) for each in thresholds))


@lru_cache(maxsize=256)
def _cuts_of(parts: tuple[tuple[float, float | None], ...]) -> Cuts:
    """Computed once for all declarations of these thresholds: functions make a declaration in every call."""
    thresholds = [number if logit is None else Threshold(number, logit) for number, logit in parts]
    return {
        (score_kind, kind): tuple(cut_of(each, score_kind, kind) for each in thresholds)
        for score_kind in ("logits", "probabilities")
        for kind in PRECISIONS
    }


def guessed_cuts_of(thresholds: Sequence[float]) -> Cuts:
    """The cut of torchmetrics for scores that it guesses: ``sigmoid(score) > threshold`` in the scores' precision.

    For logits only if the thresholds are 0.5: elsewhere the sigmoid itself has to be computed, as its rounding decides.
    """
    return _guessed_cuts_of(tuple(map(float, thresholds)))


@lru_cache(maxsize=256)
def _guessed_cuts_of(numbers: tuple[float, ...]) -> Cuts:
    cuts = {("probabilities", kind): tuple(nearest_of(number, kind) for number in numbers) for kind in PRECISIONS}
    if set(numbers) == {0.5}:
        cuts |= {("logits", kind): (_last_half(kind),) * len(numbers) for kind in PRECISIONS}
    return cuts


def _last_half(kind: torch.dtype) -> float:
    """The largest logit whose sigmoid is 0.5 in a precision.

    Half precisions round 0.5 + x / 4, where the next number is eps / 2 higher. The others compute 1 / (1 + exp(-x)):
    exp(-x) is 1 - eps / 2 up to x = 3 / 4 eps, and 2 - eps / 2 is rounded to 2.
    """
    eps: float = torch.finfo(kind).eps
    return eps if kind in (torch.float16, torch.bfloat16) else 0.75 * eps


def cut_of(threshold: float, score_kind: str, kind: torch.dtype) -> float:
    """The largest score of a type that is not above the threshold: comparing with it is exact, and costs no more.

    A probability that is the usual spelling of a score of this type means that score: 0.3 means the single-precision
    number nearest to it, so a score of 0.3 is not above 0.3 in any precision. No edge of a bin has such a spelling.

    >>> cut_of(0.999, "probabilities", torch.bfloat16), cut_of(0.3, "probabilities", torch.bfloat16)
    (0.99609375, 0.30078125)
    """
    if score_kind == "logits":
        return floor_of(logit_of(threshold), kind)
    return _written(float(threshold), kind)  # a Threshold too: it equals its number, and is saved as that


def _written(number: float, kind: torch.dtype) -> float:
    """The score that a number is the spelling of, or the one below it."""
    high = -floor_of(-number, kind)
    return high if _shortest(high, kind) == number else floor_of(number, kind)


def floor_of(number: float, kind: torch.dtype) -> float:
    """The largest number of a floating-point type that is not above this one.

    >>> floor_of(1.999, torch.bfloat16), floor_of(1e6, torch.float16), floor_of(-1e6, torch.float16)
    (1.9921875, 65504.0, -inf)
    """
    if math.isinf(number) or math.isnan(number) or number == 0:
        return number
    limits = torch.finfo(kind)
    if not limits.min <= number < limits.max:
        return limits.max if number > 0 else -math.inf
    digits = 1 - round(math.log2(limits.eps))
    least = round(math.log2(limits.smallest_normal)) + 1 - digits
    step = max(math.frexp(number)[1] - digits, least)
    return math.ldexp(math.floor(math.ldexp(number, -step)), step)


def nearest_of(number: float, kind: torch.dtype) -> float:
    """The number of a floating-point type that is nearest to this one, as torch rounds what it compares with.

    >>> nearest_of(0.999, torch.bfloat16), nearest_of(0.25 + 2**-13, torch.float16)
    (1.0, 0.25)
    """
    if kind in (torch.float16, torch.bfloat16):
        number = nearest_of(number, torch.float32)
    low, high = floor_of(number, kind), -floor_of(-number, kind)
    if number - low == high - number and low < high:  # the even one of two equally near
        return low if low / (high - low) % 2 == 0 else high
    return low if number - low <= high - number else high


def above_of(number: float, kind: torch.dtype) -> float:
    """The smallest number of a floating-point type that is above this one."""
    return -floor_of(-math.nextafter(number, math.inf), kind)


def _shortest(number: float, kind: torch.dtype) -> float:
    """The number with the fewest digits that rounds to this number of a type."""
    for digits in range(1, MOST_DIGITS + 1):
        short = float(f"{number:.{digits}g}")
        low, high = floor_of(short, kind), -floor_of(-short, kind)
        if number == (low if short - low < high - short else high):
            return short
    return number


# ---- names


def names_of(numbers: Sequence[float]) -> list[str]:
    """A text for each number, with enough digits to distinguish it from the others, and from 0 and 1.

    >>> names_of([0.5, 0.99999991, 0.99999992, Threshold.from_logit(41.5)])
    ['0.5', '0.99999991', '0.99999992', 'logit41.5']
    """
    return [_name(place, numbers) for place in range(len(numbers))]


def _name(place: int, numbers: Sequence[float]) -> str:
    own = numbers[place]
    others = [each for number, each in enumerate(numbers) if number != place]
    others += [end for end in (0.0, 1.0) if own != end]
    for digits in range(USUAL_DIGITS, MOST_DIGITS + 1):
        text = _text(own, digits)
        if text not in [_text(other, digits) for other in others]:
            return text
    return f"logit{logit_of(own):.{MOST_DIGITS}g}"  # several may share a probability


def _text(number: float, digits: int) -> str:
    if isinstance(number, Threshold) and not number.is_told:
        return f"logit{number.logit:.{digits}g}"
    return f"{float(number):.{digits}g}"
