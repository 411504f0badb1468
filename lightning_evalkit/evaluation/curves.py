"""Curves, thresholds, calibration and bounds of an evaluation with ``curves=True``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from lightning_evalkit.counts import Counts, CountsAndScores, ScoreCounter
from lightning_evalkit.errors import DeclarationError, InputError, nearest
from lightning_evalkit.inputs import Binning, Multiclass, Multilabel, Thresholded, binning_of
from lightning_evalkit.inputs.numbers import checked_flag
from lightning_evalkit.inputs.threshold import parsed
from lightning_evalkit.statistics import SCORE_STATISTICS, curves
from lightning_evalkit.statistics.calibration import answers, binned, brier_parts
from lightning_evalkit.statistics.thresholds import Choice, best_threshold, counts_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from lightning_evalkit.counts import Calibration, ScoreCounts
    from lightning_evalkit.state import EvidenceTally
    from lightning_evalkit.statistics import BrierParts
    from lightning_evalkit.statistics.curves import Bounded

RANKED = ("auroc", "average_precision")
JUDGED = ("brier", "log_loss", "calibration_error")
CHOSEN = ("best_f1", "best_f1_threshold")


class Curve(NamedTuple):
    """Two rates at falling thresholds; scores from the threshold up are positive."""

    x: Tensor
    y: Tensor
    thresholds: Tensor


class Reliability(NamedTuple):
    """Predicted and observed frequencies by bin of confidence; NaN if a bin is empty."""

    confidence: Tensor
    accuracy: Tensor
    samples: Tensor


def declared_binning(curves: bool, resolution: int | str | None, num_curves: int) -> Binning | None:
    """The declared binning: bins that follow the logit, by default as many as fit the usual size of a state."""
    checked_flag("curves", curves)
    if not curves:
        if resolution is not None:
            raise DeclarationError(f"resolution={resolution!r} needs the scores: declare curves=True.")
        return None
    if resolution is None:
        return binning_of("fine", num_curves, sums=True)
    if resolution == "bfloat16":
        return binning_of("bfloat16", num_curves, sums=True)
    if isinstance(resolution, bool) or not isinstance(resolution, int) or resolution < 8:
        raise DeclarationError(
            f"expected resolution to be a number of bins from 8 on, 'bfloat16' or None, got {resolution!r}."
        )
    return Binning("fine", resolution, sums=True)


def with_scores(counter: Any) -> Any:
    """The counter, with a score counter if the declaration has scores.

    The score counter does not repeat checks of the counter, which for classes sees only the largest score.
    """
    if counter.task.binning is None:
        return counter
    return CountsAndScores(counter, ScoreCounter(counter.task, checks=isinstance(counter.task, Multiclass)))


def with_curves(names: list[str], curves: bool, added: Sequence[str]) -> list[str]:
    """The statistics to report, with those of scores unless some were chosen."""
    chosen = [name for name in names if name.partition("/")[0] in SCORE_STATISTICS]
    if chosen and not curves:
        raise DeclarationError(f"{chosen[0]!r} needs the scores: declare curves=True.")
    return names if chosen or not curves else [*names, *added]


class Curves:
    """Adds curves to an evaluation; ``name`` chooses one of several classes or labels."""

    @property
    def tally(self) -> EvidenceTally:
        """The state that the curves are read from."""
        raise NotImplementedError

    def curve_names(self) -> Sequence[str]:
        """The names of classes or labels; one empty name for a binary problem."""
        return ("",)

    def _refuse_without_scores(self) -> None:
        if self.tally.counter.task.binning is None:
            raise DeclarationError("the scores were not kept: construct the evaluation with curves=True.")

    def _scores(self) -> ScoreCounts:
        return self._judged()[0]

    def _judged(self) -> tuple[ScoreCounts, Calibration]:
        """The histogram, and the sums over probabilities."""
        self._refuse_without_scores()
        evidence = self.tally.compute()
        assert evidence.scores is not None  # declared, with their sums
        assert evidence.calibration is not None
        return evidence.scores, evidence.calibration

    def _place(self, name: str | None) -> int:
        names = self.curve_names()
        if list(names) == [""]:
            if name is not None:
                raise InputError(f"expected no name, as there is one curve, got {name!r}.")
            return 0
        if name is None or name not in names:
            raise InputError(f"expected the name of a class or label, got {name!r}: {nearest(str(name), names)}")
        return list(names).index(name)

    def roc(self, name: str | None = None) -> Curve:
        """False-positive rate, true-positive rate (recall), thresholds."""
        points, place = curves.reached(self._scores()), self._place(name)
        fpr, tpr = curves.rates(points)
        return Curve(fpr[place], tpr[place], points.thresholds)

    def precision_recall_curve(self, name: str | None = None) -> Curve:
        """Recall, precision, thresholds."""
        points, place = curves.reached(self._scores()), self._place(name)
        precision, recall = curves.precisions(points)
        return Curve(recall[place], precision[place], points.thresholds)

    def cumulative_gain(self, name: str | None = None) -> Curve:
        """Share of all samples predicted positive, share of the positives found (recall), thresholds."""
        points, place = curves.reached(self._scores()), self._place(name)
        called, recall = curves.gains(points)
        return Curve(called[place], recall[place], points.thresholds)

    def lift(self, name: str | None = None) -> Curve:
        """Share of all samples predicted positive, their precision relative to the prevalence, thresholds."""
        called, recall, thresholds = self.cumulative_gain(name)
        return Curve(called[1:], recall[1:] / called[1:], thresholds[1:])

    def bounds(self, statistic: str = "auroc", name: str | None = None) -> Bounded:
        """Low, value and high of ``auroc`` or ``average_precision``: the exact value lies between for certain.

        The exact value is that of the given scores, whatever rounding does; for classes' logits, that of their softmax.
        Bounds for classes' logits are about three times as wide if they were counted on an accelerator or in a compiled
        step, which do not check how near a score is to the edge of its bin. With ``resolution="bfloat16"`` the bounds
        refer to the computed log-odds, in double precision if the device has it.
        """
        if statistic not in RANKED:
            raise InputError(f"expected 'auroc' or 'average_precision', got {statistic!r}.")
        found: Bounded = getattr(curves, statistic)(self._scores())
        return type(found)(*(part[self._place(name)] for part in found))

    def reliability(self, name: str | None = None) -> Reliability:
        """Mean confidence, share of hits and number of samples of each of 15 bins of confidence.

        Labels have one diagram each. For classes, the diagram without a name is that of the predicted class and its
        confidence; the diagram of a named class is one-vs-rest, from the histogram.
        """
        (scores, sums), place = self._judged(), self._judged_place(name)
        groups = binned(sums) if place is None else answers(scores, sums, place)
        weights, confidences, hits = (part[0] for part in groups)
        return Reliability(confidences / weights, hits / weights, weights)

    def brier_decomposition(self, name: str | None = None) -> BrierParts:
        """The Brier score as calibration + refinement + within, and the uncertainty of the data.

        For classes, every part is summed over them, as the Brier score is, unless one is named; calibration and
        refinement are then one-vs-rest, to the width of a bin of the histogram.
        """
        return brier_parts(*self._judged(), self._judged_place(name))

    def _judged_place(self, name: str | None) -> int | None:
        """The index of a name; None for all classes together."""
        if name is None and isinstance(self.tally.counter.task, Multiclass):
            return None
        return self._place(name)

    def best_threshold(
        self,
        criterion: str = "f1",
        costs: Mapping[str, float] | None = None,
        at_least: Mapping[str, float] | None = None,
    ) -> Any:
        """Find the threshold with the best statistic, or the lowest cost of errors; by name for each class or label.

        It is a ``Threshold``: a probability that also keeps the logit if logits were counted.
        """
        choice: Choice = best_threshold(self._scores(), criterion, costs, at_least)
        found = dict(zip(self.curve_names(), choice.thresholds, strict=True))
        return found[""] if list(found) == [""] else found

    def at_threshold(self, threshold: float) -> Counts:
        """The counts with scores above the threshold as positive; one for each class or label.

        They are exact at a declared threshold and at ``best_threshold``, elsewhere to the width of a bin.
        """
        cut = parsed(threshold)
        counts = self._declared_at(cut, counts_at(self._scores(), cut))
        return counts.at(0) if len(self.curve_names()) == 1 else counts

    def _declared_at(self, threshold: float, counts: Counts) -> Counts:
        """Replace counts from bins by exact ones if this threshold is declared."""
        task, exact = self.tally.counter.task, self.tally.counts
        if not isinstance(task, Thresholded) or threshold not in task.thresholds:
            return counts
        if not isinstance(task, Multilabel):
            place = task.thresholds.index(threshold)
            return Counts(*(cell[place : place + 1] for cell in exact.cells))
        own = [each == threshold for each in task.thresholds]
        here = torch.tensor(own, device=exact.tp.device).expand(exact.tp.shape)
        pairs = zip(exact.cells, counts.cells, strict=True)
        return Counts(*(torch.where(here, one, other.to(one.device)) for one, other in pairs))
