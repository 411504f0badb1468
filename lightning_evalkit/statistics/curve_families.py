"""Families of results from scores: curves, areas and best points, shared by metrics and functions.

A family computes the result of a binary problem (``of_one``) and of several classes or labels (``of_all``), in
torchmetrics' form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import isnan, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from lightning_evalkit.errors import DeclarationError
from lightning_evalkit.inputs.numbers import as_number, checked_share, listed
from lightning_evalkit.statistics import curve_results as results
from lightning_evalkit.statistics import curves
from lightning_evalkit.statistics.arrays import array_of
from lightning_evalkit.statistics.missing import (
    BOTH,
    POSITIVES,
    has_value,
    value_of_missing,
    warn_if_left_out,
    warn_if_missing,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from lightning_evalkit.counts import ScoreCounts
    from lightning_evalkit.statistics.curve_results import Tables, Three
    from lightning_evalkit.statistics.curves import Bounded


class Family:
    """A result computed from the scores of a binary problem, or of several classes or labels."""

    higher_is_better: bool | None = None

    def of_one(self, tables: Tables) -> Any:
        """Compute the result of a binary problem."""
        raise NotImplementedError

    def of_all(self, tables: Tables, average: str | None = None) -> Any:
        """Compute the result of every class or label, or their average."""
        raise NotImplementedError


# ---- curves


@dataclass(frozen=True)
class CurveFamily(Family):
    """Two coordinates and their thresholds; ``axes`` names the horizontal and the vertical one."""

    points: Callable[..., Three]
    axes: tuple[str, str]
    needs: tuple[str, ...]
    missing: float
    """torchmetrics' rate for a class without samples, with a warning unless it is NaN."""
    second_is_horizontal: bool = False

    def of_one(self, tables: Tables) -> Three:
        """Compute one curve."""
        first, second, thresholds = self._curve(tables)(tables[0])
        return first[0], second[0], thresholds

    def of_all(self, tables: Tables, average: str | None = None) -> Three:
        """Compute a curve for every class or label, or their average."""
        return results.all_curves(tables, self._curve(tables, average), average, self.needs)

    def _curve(self, tables: Tables, average: str | None = None) -> Callable[[ScoreCounts], Three]:
        missing = value_of_missing(tables, self.missing)
        if average == "macro":
            warn_if_left_out(tables, self.needs, average)
        elif average is None and not isnan(missing):
            warn_if_missing(tables, self.needs)
        return partial(self.points, missing=missing)


ROC = CurveFamily(results.roc, ("False positive rate", "True positive rate"), BOTH, 0.0)
PRECISION_RECALL = CurveFamily(results.precision_recall, ("Recall", "Precision"), POSITIVES, 1.0, True)
CLASS_PRECISION_RECALL = replace(PRECISION_RECALL, missing=nan)


# ---- numbers


class NumberFamily(Family):
    """One number of a curve, averaged over the classes or labels for which it is defined."""

    needs: tuple[str, ...] = BOTH
    undefined: float = 0.0
    """torchmetrics' value where samples are missing; with given thresholds it is always 0."""

    def values(self, tables: Tables) -> Tensor:
        """Compute the number of every class or label."""
        raise NotImplementedError

    def of_one(self, tables: Tables) -> Tensor:
        """Compute one number."""
        return self.of_each(tables)[0]

    def of_each(self, tables: Tables) -> Tensor:
        """Compute the number of every class or label, with torchmetrics' value where samples are missing."""
        if not isnan(value_of_missing(tables, self.undefined)):
            warn_if_missing(tables, self.needs)
        return self._filled(self.values(tables), tables).float()

    def of_all(self, tables: Tables, average: str | None = None) -> Tensor:
        """Compute a number for every class or label, or their average."""
        if average == "micro":
            return self.of_one(results.micro(tables))
        if average in (None, "none"):
            return self.of_each(tables)
        warn_if_left_out(tables, self.needs, average)
        known = has_value(tables, self.needs)
        value = results.averaged_over_questions(self.values(tables), known, tables, average)
        return self._filled(value, tables).float()

    def _filled(self, values: Tensor, tables: Tables) -> Tensor:
        if not np.isnan(array_of(values)).any():
            return values
        undefined = value_of_missing(tables, 0.0 if tables[0].given else self.undefined)
        return torch.where(values.isnan(), undefined, values)


class AreaFamily(NumberFamily):
    """An area with certain bounds, however coarse the bins are."""

    higher_is_better = True

    def bounded(self, table: ScoreCounts) -> Bounded:
        """Compute low, value and high for every class or label of a table."""
        raise NotImplementedError

    def bounds(self, tables: Tables) -> Bounded:
        """Compute low, value and high for every class or label."""
        found = [self.bounded(table) for table in tables]
        return type(found[0])(*(torch.cat(parts) for parts in zip(*found, strict=True)))


@dataclass(frozen=True)
class AreaUnderRoc(AreaFamily):
    """The area under the ROC curve; with ``max_fpr``, the area up to it, rescaled."""

    max_fpr: float | None = None

    def up_to(self, max_fpr: float | None) -> AreaUnderRoc:
        """Return the family of the area up to this false-positive rate."""
        return self if max_fpr is None else AreaUnderRoc(checked_share("max_fpr", max_fpr, above=True))

    def values(self, tables: Tables) -> Tensor:
        """Compute the areas."""
        return results.areas(tables, self.max_fpr)

    def bounded(self, table: ScoreCounts) -> Bounded:
        """Compute the areas and their bounds."""
        return curves.auroc(table, self.max_fpr)


@dataclass(frozen=True)
class AreaUnderLogRoc(NumberFamily):
    """The area under the ROC curve over the logarithm of the false-positive rate, within a range of that rate."""

    fpr_range: tuple[float, float] = (0.001, 0.1)
    higher_is_better = True

    def over(self, fpr_range: tuple[float, float]) -> AreaUnderLogRoc:
        """Return the family of the area over this range of false-positive rates."""
        ends = tuple(map(as_number, listed("fpr_range", fpr_range)))
        if len(ends) != 2 or None in ends or not 0 < ends[0] < ends[1] <= 1:  # type: ignore[operator]
            raise DeclarationError(f"expected fpr_range to be two numbers that rise within (0, 1], got {fpr_range!r}.")
        return AreaUnderLogRoc(fpr_range)

    def values(self, tables: Tables) -> Tensor:
        """Compute the areas."""
        return results.log_areas(tables, self.fpr_range, value_of_missing(tables, 0.0))


@dataclass(frozen=True)
class AreaUnderPrecisionRecall(AreaFamily):
    """The area under the precision-recall curve, in steps."""

    undefined: float = 0.0
    needs = POSITIVES

    def values(self, tables: Tables) -> Tensor:
        """Compute the areas."""
        return results.average_precisions(tables)

    def bounded(self, table: ScoreCounts) -> Bounded:
        """Compute the areas and their bounds."""
        return curves.average_precision(table)


class EqualErrorRate(NumberFamily):
    """The error rate where false-positive and false-negative rate are equal; averages are taken over ROC curves."""

    higher_is_better = False

    def values(self, tables: Tables) -> Tensor:
        """Compute the rates."""
        return results.equal_error_rates(tables, value_of_missing(tables, 0.0))

    def of_all(self, tables: Tables, average: str | None = None) -> Tensor:
        """Compute the rate of every class or label, or that of the averaged curve."""
        if average is None:
            return self.of_each(tables)
        if average == "macro":
            warn_if_left_out(tables, self.needs, average)
        return results.averaged_equal_error_rate(tables, average, value_of_missing(tables, 0.0))


AUROC = AreaUnderRoc()
LOG_AUC = AreaUnderLogRoc()
AVERAGE_PRECISION = AreaUnderPrecisionRecall()
CLASS_AVERAGE_PRECISION = AreaUnderPrecisionRecall(undefined=nan)
EER = EqualErrorRate()


# ---- the best point within a bound


@dataclass(frozen=True)
class PointFamily(Family):
    """The largest value of one coordinate where the other reaches a bound, and its threshold."""

    pair: Callable[..., Three]
    best: Callable[..., tuple[Tensor, Tensor]]
    argument: str
    needs: tuple[str, ...] = BOTH
    bound: float = nan
    higher_is_better = True

    def within(self, bound: float) -> PointFamily:
        """Return the family of the best points within this bound."""
        return replace(self, bound=checked_share(self.argument, bound))

    def of_one(self, tables: Tables) -> tuple[Tensor, Tensor]:
        """Find one value and its threshold."""
        values, thresholds = self.of_all(tables)
        return values[0], thresholds[0]

    def of_all(self, tables: Tables, average: str | None = None) -> tuple[Tensor, Tensor]:
        """Find the value and the threshold of every class or label."""
        missing = value_of_missing(tables, float(self.needs == POSITIVES))
        if not isnan(missing):
            warn_if_missing(tables, self.needs)
        pair = partial(self.pair, missing=missing)
        return results.best_pairs(tables, pair, lambda *curve: self.best(*curve, self.bound))


def recall_and_precision(table: ScoreCounts, missing: float) -> Three:
    """Return recall, precision, thresholds."""
    precision, recall, thresholds = results.precision_recall(table, missing)
    return recall, precision, thresholds


def sensitivity_and_specificity(table: ScoreCounts, missing: float) -> Three:
    """Return sensitivity, specificity, thresholds."""
    fpr, tpr, thresholds = results.roc(table, missing)
    return tpr, 1 - fpr, thresholds


def specificity_and_sensitivity(table: ScoreCounts, missing: float) -> Three:
    """Return specificity, sensitivity, thresholds."""
    sensitivity, specificity, thresholds = sensitivity_and_specificity(table, missing)
    return specificity, sensitivity, thresholds


RECALL_AT_PRECISION = PointFamily(recall_and_precision, results.at_least, "min_precision", POSITIVES)
PRECISION_AT_RECALL = PointFamily(results.precision_recall, results.at_least, "min_recall", POSITIVES)
SENSITIVITY_AT_SPECIFICITY = PointFamily(sensitivity_and_specificity, results.first_at_least, "min_specificity")
SPECIFICITY_AT_SENSITIVITY = PointFamily(specificity_and_sensitivity, results.first_at_least, "min_sensitivity")
