"""Kept scores into the lines of a figure: ROC, precision and recall, thresholds, reliability.

Curves are read at evenly spaced places, nearer than pixels: drawing takes the same time for any number of samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from lightning_evalkit.reports.score_snapshot import MAX_NAMED
from lightning_evalkit.sinks.figures import Line, Panel, shortened
from lightning_evalkit.statistics import curves
from lightning_evalkit.statistics.score_statistics import calibration_error
from lightning_evalkit.statistics.thresholds import best_threshold

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lightning_evalkit.reports.score_snapshot import ScoreSnapshot
    from lightning_evalkit.statistics.curves import Bounded
    from lightning_evalkit.statistics.thresholds import Choice

FEW = 3
"""Up to so many classes or labels have lines of precision and recall over the threshold."""
PLACES = torch.linspace(0, 1, 501, dtype=torch.float64)
ENDS = (0.0, 1.0)


def panels(snapshot: ScoreSnapshot) -> list[Panel]:
    """All that is drawn of an evaluation."""
    return [roc(snapshot), precision_recall(snapshot), thresholds(snapshot), reliability(snapshot)]


def roc(snapshot: ScoreSnapshot) -> Panel:
    """True-positive over false-positive rate."""
    area = curves.auroc(snapshot.scores)
    rates = zip(*(part.numpy() for part in curves.rates(curves.reached(snapshot.scores))), strict=True)
    # Of several rates at one place the last is read; a line begins at the origin all the same.
    y = torch.from_numpy(np.stack([np.append(0.0, np.interp(PLACES, fpr, tpr)) for fpr, tpr in rates]))
    family = Family(
        snapshot, "AUROC", torch.cat((PLACES[:1], PLACES)), _where(y, area.value), area.value, _bounded(area)
    )
    lines = [Line(ENDS, ENDS, "chance", "dotted"), *family.lines()]
    return family.panel("ROC", "false-positive rate", "true-positive rate", lines)


def precision_recall(snapshot: ScoreSnapshot) -> Panel:
    """Precision over recall, in steps whose area is the average precision."""
    area = curves.average_precision(snapshot.scores)
    precision, recall = curves.precisions(curves.reached(snapshot.scores))
    # The precision with which a recall is first reached; one of 0 is reached without any prediction.
    wanted = PLACES.clamp(min=1e-9).repeat(len(recall), 1)
    places = torch.searchsorted(recall.nan_to_num(0.0), wanted).clamp(max=recall.shape[1] - 1)
    y = _where(precision.gather(1, places), area.value)
    family = Family(snapshot, "average precision", PLACES, y, area.value, _bounded(area))
    return family.panel("Precision and recall", "recall", "precision", [*_prevalences(snapshot), *family.lines()])


def thresholds(snapshot: ScoreSnapshot) -> Panel:
    """F1 over the threshold, the best marked; precision and recall beside it where there is room."""
    best = best_threshold(snapshot.scores, "f1")
    cuts = torch.cat((PLACES, best.threshold[~best.threshold.isnan()])).unique()
    counts = snapshot.counts_at(cuts).real()
    recall = counts.tp / counts.positives
    f1 = _where(2 * counts.tp / (counts.positives + counts.predicted_positives), recall[:, 0])
    texts = [f"{value:.4f} at {cut.shown(4)}" for cut, value in zip(best.thresholds, best.value.tolist(), strict=True)]
    family = Family(snapshot, "best F1", cuts, f1, best.value, texts)
    lines, marks = family.lines(), _marks(snapshot, best)
    if len(snapshot.names) > FEW:
        return family.panel("Thresholds", "threshold", "F1", lines + marks)
    if snapshot.unnamed:  # the number stands at its mark
        lines, marks[-1] = [lines[0]._replace(label="F1")], marks[-1]._replace(label=lines[0].label)
    step = 1 if snapshot.unnamed else 0  # colours are left where they do not tell classes or labels apart
    precision = _where(counts.tp / counts.predicted_positives, recall[:, 0])
    lines += [Line(cuts, y, "" if k else "precision", "dashed", k + step) for k, y in enumerate(precision)]
    lines += [Line(cuts, y, "" if k else "recall", "dotted", k + 2 * step) for k, y in enumerate(recall)]
    return family.panel("Thresholds", "threshold", "F1, precision, recall", lines + marks)


def _marks(snapshot: ScoreSnapshot, best: Choice) -> list[Line]:
    """Points at the best thresholds of those that are named, and where there is one only, its place on the axis."""
    points = [Line(best.threshold[k, None], best.value[k, None], "", "mark", n) for n, k in enumerate(snapshot.named)]
    if snapshot.unnamed:
        points.insert(0, Line(best.threshold.expand(2), torch.stack((0 * best.value[0], best.value[0])), "", "dotted"))
    return points


def _where(values: Tensor, defined: Tensor) -> Tensor:
    """Rows that have a value, NaN in the place of others."""
    return values.where(~defined[:, None].isnan(), torch.nan)


def _bounded(area: Bounded) -> list[str]:
    """Values with what is certain, rounded outwards."""
    return [
        ""
        if math.isnan(value)
        else f"{value:.4f} in [{math.floor(low * 1e4) / 1e4:.4f}, {math.ceil(high * 1e4) / 1e4:.4f}]"
        for low, value, high in zip(*(part.tolist() for part in area), strict=True)
    ]


def _heading(snapshot: ScoreSnapshot, what: str) -> str:
    """What a legend gives of those that it names."""
    return "" if snapshot.unnamed else what if len(snapshot.names) <= MAX_NAMED else f"{what}, where AUROC is lowest"


def _prevalences(snapshot: ScoreSnapshot) -> list[Line]:
    """What chance reaches: for each, of many their mean."""
    shares = snapshot.positives / (snapshot.positives + snapshot.negatives)
    if len(snapshot.names) > MAX_NAMED:
        return [Line(ENDS, shares.nanmean().expand(2), "mean prevalence", "dotted")]
    label = f"prevalence {shares[0]:.4f}" if snapshot.unnamed and shares[0] >= 0 else "prevalence"
    return [Line(ENDS, share.expand(2), "" if k else label, "dotted", k) for k, share in enumerate(shares)]


@dataclass(frozen=True)
class Family:
    """Curves of all classes or labels over one axis, and a number that belongs to each; NaN where undefined."""

    snapshot: ScoreSnapshot
    what: str
    x: Tensor
    y: Tensor
    values: Tensor
    texts: Sequence[str]

    def lines(self) -> list[Line]:
        """One for each; of many some with a colour and a name, the others thin, and their mean."""
        named, total = self.snapshot.named, len(self.values)
        shown = [Line(self.x, self.y[k], self._label(k), number=number) for number, k in enumerate(named)]
        if total <= MAX_NAMED:
            return shown
        defined = (~self.values.isnan()).nonzero().flatten().tolist()
        others = [k for k in defined if k not in named]
        mean = f"mean of {len(defined)} of {total}: {self.values.nanmean():.4f}"
        thin = [Line(self.x, self.y[others].T, f"{len(others)} others", "thin")] if others else []
        return [*thin, *shown, Line(self.x, self.y.nanmean(0), mean, "mean")]

    def _label(self, place: int) -> str:
        undefined = f"undefined, {self.snapshot.missing(place)}"
        text = undefined if self.values[place].isnan() else self.texts[place]
        return f"{self.what} {text}" if self.snapshot.unnamed else f"{shortened(self.snapshot.names[place])}: {text}"

    def panel(self, title: str, x_label: str, y_label: str, lines: Sequence[Line]) -> Panel:
        """The curves with all that is drawn besides, and why there are none."""
        reasons = sorted({self.snapshot.missing(place) for place in range(len(self.values))})
        note = f"undefined: {', '.join(reasons)}" if self.y.isnan().all() else ""
        title = f"{title}, each class against the rest" if self.snapshot.exclusive else title
        return Panel(title, x_label, y_label, lines, _heading(self.snapshot, self.what), note)


# ---- reliability


def reliability(snapshot: ScoreSnapshot) -> Panel:
    """What happened over what was predicted, by bin of confidence; labels apart, classes together."""
    errors = calibration_error(snapshot.sums)
    lines = [Line(ENDS, ENDS, "calibrated", "dotted")]
    lines += _one_reliability(snapshot) if len(errors) == 1 else _reliabilities(snapshot, errors)
    undefined = bool(errors.isnan().all())
    mean = "" if undefined else f" · {'mean ' if len(errors) > 1 else ''}calibration error {errors.nanmean():.4f}"
    axes = ("mean predicted probability", "share of positives")
    if snapshot.exclusive:
        axes = ("mean probability of the predicted class", "share of right predictions")
    heading = _heading(snapshot, "calibration error") if len(errors) > 1 else ""
    return Panel(f"Reliability{mean}", *axes, lines, heading, "undefined: no samples" if undefined else "")


def _one_reliability(snapshot: ScoreSnapshot) -> list[Line]:
    shares = snapshot.sums.bin_weights[0] / snapshot.sums.weights[0]
    middles = (torch.arange(len(shares)) + 0.5) / len(shares)
    return [Line(middles, shares, "share of samples", "bars"), _bins(snapshot, 0, "bins, sized by samples", 0)]


def _reliabilities(snapshot: ScoreSnapshot, errors: Tensor) -> list[Line]:
    named = snapshot.named
    others = [k for k in range(len(errors)) if k not in named]
    thin = [
        _bins(snapshot, k, "" if n else f"{len(others)} others")._replace(kind="thin", sizes=None)
        for n, k in enumerate(others)
    ]
    said = [f"{error:.4f}" if error == error else "undefined, no samples" for error in errors.tolist()]
    return thin + [_bins(snapshot, k, f"{shortened(snapshot.names[k])}: {said[k]}", n) for n, k in enumerate(named)]


def _bins(snapshot: ScoreSnapshot, place: int, label: str, number: int | None = None) -> Line:
    """Those that hold something."""
    weights, confidences, hits = (part[place] for part in snapshot.sums[3:])
    full = weights > 0
    x, y, shares = (
        (part / whole)[full] for part, whole in ((confidences, weights), (hits, weights), (weights, weights.sum()))
    )
    return Line(x, y, label, "solid", number, shares)
