"""The four numbers everything else is made of."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_evalkit.counts.deferral import is_deferred
from lightning_evalkit.counts.wide import Wide, is_moderate
from lightning_evalkit.errors import InputError
from lightning_evalkit.registry import Registry

ARRAYS = (np.ndarray, np.generic)
"""The types of ``Counts.in_reach`` on the CPU, and of its sums."""

ANSWERS: Registry[Any] = Registry("question about counts")
"""What is known about counts further up, as functions of them: a part that has one adds it here."""


@dataclass(frozen=True, eq=False)
class Counts:
    """True and false positives and negatives, by name, as scalars or as tensors of one shape.

    Python numbers of any size stay exact; tensors may have any shape (thresholds, classes, labels, samples).

    >>> Counts(tp=40, fp=10, fn=10, tn=40) + Counts(tp=1, fp=0, fn=0, tn=0)
    Counts(tp=41, fp=10, fn=10, tn=40)
    """

    tp: Any
    fp: Any
    fn: Any
    tn: Any

    @classmethod
    def empty(cls, *shape: int) -> Counts:
        """No samples: the neutral element of ``+`` (a scalar, or zeros of a shape)."""
        nothing = torch.zeros(shape, dtype=torch.int64) if shape else 0
        return cls(nothing, nothing, nothing, nothing)

    @property
    def positives(self) -> Any:
        """Samples whose target is positive (the support): tp + fn."""
        return self.tp + self.fn

    @property
    def support(self) -> Any:
        """The usual name of ``positives``."""
        return self.positives

    @property
    def negatives(self) -> Any:
        """Samples whose target is negative: tn + fp."""
        return self.tn + self.fp

    @property
    def predicted_positives(self) -> Any:
        """Samples predicted positive: tp + fp."""
        return self.tp + self.fp

    @property
    def predicted_negatives(self) -> Any:
        """Samples predicted negative: tn + fn."""
        return self.tn + self.fn

    @property
    def errors(self) -> Any:
        """Samples predicted wrongly: fp + fn."""
        return self.fp + self.fn

    @property
    def total(self) -> Any:
        """All samples: tp + fp + fn + tn."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def prevalence(self) -> Any:
        """The share of positives among all samples; NaN where there is none."""
        if isinstance(self.tp, Tensor):
            return self.positives / self.total
        return self.positives / self.total if self.total else float("nan")

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        return Counts(*(a + b for a, b in zip(self.cells, other.cells, strict=True)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        return all(_same(a, b) for a, b in zip(self.cells, other.cells, strict=True))

    __hash__ = None  # type: ignore[assignment]  # holds tensors

    @property
    def cells(self) -> tuple[Any, Any, Any, Any]:
        """The fields in the order in which they are written: tp, fp, fn, tn."""
        return self.tp, self.fp, self.fn, self.tn

    def at(self, place: int) -> Counts:
        """The table at one place of the last dimension: of a threshold, a class or a label."""
        return Counts(*(cell.select(-1, place) for cell in self.cells))

    def summed(self) -> Counts:
        """All tables of the last dimension added up."""
        return Counts(*(cell.sum(-1) for cell in self.cells))

    def swapped(self) -> Counts:
        """The same samples with the other class called positive."""
        return Counts(tp=self.tn, fp=self.fn, fn=self.fp, tn=self.tp)

    def exact(self) -> Counts:
        """The same counts of one table as Python integers, or fractions where weighted: nothing rounds any more."""
        numbers: list[Any] = [c.tolist() if isinstance(c, Tensor) else c for c in self.cells]
        if any(isinstance(n, list) for n in numbers):
            raise InputError("expected the counts of one table, got several: choose one threshold, class or label.")
        if any(isinstance(n, float) and not isfinite(n) for n in numbers) or min(numbers) < 0:
            raise InputError(f"expected counts that are finite and not negative, got {self}.")
        return Counts(*(n if isinstance(n, int) else Fraction(n) for n in numbers))

    def intervals(
        self, *statistics: str, level: float = 0.95, method: str = "auto", prevalence: float | None = None
    ) -> dict[str, Any]:
        """How sure statistics of this table are, or would be at another ``prevalence``: an ``Interval`` for each name.

        >>> from lightning_evalkit import Counts
        >>> print(Counts(tp=40, fp=10, fn=10, tn=40).intervals("f1")["f1"])
        0.8000 [0.7018, 0.8718]
        """
        if "intervals" not in ANSWERS:
            raise InputError("nobody has been asked yet: import Counts from lightning_evalkit, or its intervals.")
        asked = {"level": level, "method": method, "prevalence": prevalence}
        found: dict[str, Any] = ANSWERS["intervals"](self, *statistics, **asked)
        return found

    def real(self) -> Counts:
        """The same counts as real tensors, in which products of counts do not overflow; real arrays as they are."""
        return self if isinstance(self.tp, (*ARRAYS, Wide)) else Counts(*(_real(c) for c in self.cells))

    def in_reach(self) -> Counts:
        """Real arrays of NumPy where nobody waits for a look at values, else real tensors; weights of any size.

        Python's numbers stay exact. A statistic of a few tables takes a third of the time of torch's operators.
        """
        if not isinstance(self.tp, Tensor) or is_deferred(self.tp) or self.tp.requires_grad:
            return self.of_any_size()
        arrays = Counts(*(cell.numpy().astype(np.float64) for cell in self.cells))
        return arrays.of_any_size() if self.tp.is_floating_point() else arrays

    def of_any_size(self) -> Counts:
        """Numbers of which products neither overflow nor vanish.

        Counts of samples are small enough as real numbers. Weights are so too where their values show it.
        """
        if isinstance(self.tp, ARRAYS):
            return self if is_moderate(self.cells) else self._wide()
        if not isinstance(self.tp, Tensor):
            return self.as_fractions()
        if not self.tp.is_floating_point() or self.tp.requires_grad:  # a gradient is of counts, not of weights
            return self.real()
        return self.real() if not is_deferred(self.tp) and is_moderate(self.cells) else self.real()._wide()

    def _wide(self) -> Counts:
        return Counts(*(Wide.of(cell) for cell in self.cells))

    def as_fractions(self) -> Counts:
        """Python's floats as fractions, products of which do not overflow; all else as it is."""
        if not any(isinstance(cell, float) and not isinstance(cell, np.generic) for cell in self.cells):
            return self
        return Counts(*(Fraction(c) if isinstance(c, float) and isfinite(c) else c for c in self.cells))

    def __repr__(self) -> str:
        names = ("tp", "fp", "fn", "tn")
        values = (c.tolist() if isinstance(c, Tensor) else c for c in self.cells)
        return f"Counts({', '.join(f'{n}={v}' for n, v in zip(names, values, strict=True))})"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and bool((a == b).all())
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        a, b = (x.tolist() if isinstance(x, Tensor) else x for x in (a, b))
    return bool(a == b)


def _real(count: Any) -> Tensor:
    if not isinstance(count, Tensor):
        return torch.tensor(float(count), dtype=torch.float64)
    return count.to(real_dtype(count.device))


def real_dtype(device: torch.device) -> torch.dtype:
    """float64, except on Apple's GPUs, which do not have it."""
    return torch.float32 if device.type == "mps" else torch.float64


def wide_dtype(kind: torch.dtype) -> torch.dtype:
    """At least single precision; no operator is dispatched for it, as one is for ``torch.promote_types``."""
    return torch.float64 if kind == torch.float64 else torch.float32
